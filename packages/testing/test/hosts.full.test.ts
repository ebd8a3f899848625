import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createHosts, hostsAvailability, type TestHost } from '@shardwise/testing/hosts';
import { describe, expect, it } from 'vitest';

const availability = await hostsAvailability();
const title = availability.available ? 'test hosts' : `not here: ${availability.reason}`;

/** Runs a JavaScript program on a host and returns what it prints. */
async function evaluate(host: TestHost | undefined, code: string): Promise<string> {
  const child = host?.spawn(process.execPath, ['-e', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child?.stdout?.setEncoding('utf8').on('data', (part: string) => (text += part));
  if (child !== undefined) await once(child, 'close');
  return text;
}

/** A program that prints OK if `host`:7000 answers in time, and otherwise the error. */
function reach({ address }: TestHost): string {
  return `
    const socket = require('node:net').connect(7000, '${address}');
    socket.setTimeout(300, () => socket.destroy(new Error('silence')));
    socket.on('connect', () => { console.log('OK'); socket.destroy(); });
    socket.on('error', (error) => console.log(error.message));
  `;
}

async function listen(host: TestHost): Promise<ChildProcess> {
  const code = `require('node:net').createServer((s) => s.resume()).listen(7000, '${host.address}', () => console.log(1))`;
  const child = host.spawn(process.execPath, ['-e', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (child.stdout !== null) await once(child.stdout, 'data');
  return child;
}

function namespaces(pid: number): readonly string[] {
  const list = execFileSync('ip', ['netns', 'list'], { encoding: 'utf8' });
  return list.split('\n').filter((name) => name.startsWith(`shardwise-${pid}-`));
}

describe.skipIf(!availability.available)(title, () => {
  it('have names, addresses and process ids of their own', async () => {
    await using made = await createHosts(2);
    expect(made.hosts.map(({ name, address }) => [name, address])).toEqual([
      ['host0', '10.77.0.1'],
      ['host1', '10.77.0.2'],
    ]);
    const code = `
      const { hostname, networkInterfaces } = require('node:os');
      console.log(JSON.stringify([hostname(), networkInterfaces().eth0[0].address]));
    `;
    expect(JSON.parse(await evaluate(made.hosts[1], code))).toEqual(['host1', '10.77.0.2']);
    const child = made.hosts[0]?.spawn(process.execPath, ['-p', 'process.pid']);
    let pid = '';
    child?.stdout?.setEncoding('utf8').on('data', (text: string) => (pid += text));
    if (child !== undefined) await once(child, 'close');
    expect(Number(pid)).toBe(child?.pid);
  });

  it('reach each other unless the link is cut', async () => {
    await using made = await createHosts(3);
    const [first, second, third] = made.hosts;
    if (first === undefined || second === undefined) throw new RangeError('too few hosts');
    await listen(second);
    expect(await evaluate(first, reach(second))).toBe('OK\n');
    expect(await evaluate(third, reach(second))).toBe('OK\n');
    await second.cut();
    expect(await evaluate(first, reach(second))).toBe('silence\n');
    await second.restore();
    expect(await evaluate(first, reach(second))).toBe('OK\n');
  });

  it('count what they send, also at a limited rate', async () => {
    await using made = await createHosts(2);
    const [first, second] = made.hosts;
    if (first === undefined || second === undefined) throw new RangeError('too few hosts');
    await listen(second);
    await first.setRate('100mbit');
    const before = await first.traffic();
    const bytes = 1 << 20;
    const code = `require('node:net').connect(7000, '${second.address}').end(Buffer.alloc(${bytes}))`;
    await evaluate(first, code);
    const after = await first.traffic();
    await first.setRate(undefined);
    expect((after.sentBytes - before.sentBytes) / bytes).toBeGreaterThan(1);
    expect((after.sentBytes - before.sentBytes) / bytes).toBeLessThan(1.1);
  });

  it('are gone with their processes when they are disposed of', async () => {
    const made = await createHosts(2);
    const child = made.hosts[0]?.spawn('sleep', ['1000']);
    const ended = child === undefined ? [] : once(child, 'exit');
    expect(namespaces(process.pid)).toHaveLength(3);
    await made[Symbol.asyncDispose]();
    expect(await ended).toEqual([null, 'SIGKILL']);
    expect(namespaces(process.pid)).toEqual([]);
  });

  it('that a killed process has left go with the next ones', async () => {
    const url = import.meta.resolve('@shardwise/testing/hosts');
    const code = `
      import { createHosts } from '${url}';
      await createHosts(1);
      console.log('made');
      setInterval(() => {}, 1000);
    `;
    const args = ['--conditions=@shardwise/source', '--input-type=module', '-e', code];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'data');
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
    expect(namespaces(child.pid ?? 0)).toHaveLength(2);
    await using _ = await createHosts(1);
    expect(namespaces(child.pid ?? 0)).toEqual([]);
  });

  it.each([0, 5, 1.5])('there cannot be %d of them', async (count) => {
    await expect(createHosts(count)).rejects.toThrow(RangeError);
  });
});
