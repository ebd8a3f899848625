import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { Command, freePort } from './command.ts';
import {
  expectBits,
  lastStepOf,
  mostRepeatedSteps,
  printedRun,
  stretchesOf,
  survivorScript,
} from './survivals.ts';

// Each host is a separate launcher on this machine.

const env = { SHARDWISE_SECRET: 'a secret of this test alone' };

let cwd = '';
let rendezvous = '';
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-survive-hosts-'));
  rendezvous = `127.0.0.1:${await freePort()}`;
});

describe('--min-nproc on several hosts', { timeout: 240_000 }, () => {
  it('has the others go on without a rank, and without a host, and take both in again, to the bits of a run without faults', async () => {
    const script = survivorScript(
      { steps: 1_000_000, pauseMs: 30, folder: cwd },
      '3:3:inside:kill',
    );
    const host = (...options: readonly string[]): Command =>
      new Command(
        ['run', '--rdzv', rendezvous, '--nnodes', '2', '--nproc', '2', '--min-nproc', '2']
          .concat('--max-restarts', '1', ...options)
          .concat(script),
        { cwd, env },
      );
    const first = host('--node-rank', '0', '--run-dir', 'out');
    const second = host('--node-rank', '1');
    const worldSize = (): number => printedRun(first.stdout).beginnings.at(-1)?.worldSize ?? 0;
    const goesOn = async (): Promise<void> => {
      const reached = lastStepOf(first);
      while (lastStepOf(first) < reached + 3) await sleep(20);
    };
    await first.says(/ 3 ranks go on after step 2\./);
    await first.says(/ came in the place of lost ones\. 4 ranks go on/);
    await goesOn();
    second.kill('SIGKILL');
    await first.says(/Ranks 2, 3 were lost: node 1 \(.*\) was lost: .* 2 ranks go on/);
    await goesOn();
    const third = host();
    while (worldSize() < 4) await sleep(20);
    await goesOn();
    first.kill('SIGINT');
    expect(await first.ended(), first.output).toBe(130);
    expect(await third.ended(), third.output).toBe(0);
    expect(first.output).toMatch(/Rank 3 was lost: .* by SIGKILL\. 3 ranks go on after step 2\./);
    const found = printedRun(first.stdout);
    // The ranks of the first host keep their processes, and nobody has computed more than one step again.
    expect(new Set(found.beginnings.map(({ pid }) => pid)).size).toBe(2);
    for (const { stdout } of [first, second, third]) {
      expect(mostRepeatedSteps(printedRun(stdout))).toBeLessThanOrEqual(1);
    }
    const total = lastStepOf(first);
    await expectBits(found, stretchesOf(found, total), join(cwd, 'out', 'metrics.jsonl'));
    expect(printedRun(third.stdout).ends).toEqual([
      { rank: expect.any(Number), values: found.ends[0]?.values },
      { rank: expect.any(Number), values: found.ends[0]?.values },
    ]);
  });

  it('has ranks of two hosts connect again, in their processes, when a connection breaks', async () => {
    const script = survivorScript({ steps: 8, pauseMs: 1, folder: cwd }, '2:3:inside:cut');
    const args = ['run', '--rdzv', rendezvous, '--nnodes', '2', '--nproc', '2'];
    const host = (place: string): Command =>
      new Command(
        [...args, '--min-nproc', '4', '--node-rank', place, '--run-dir', 'out', ...script],
        {
          cwd,
          env,
        },
      );
    const hosts = ['0', '1'].map(host);
    for (const each of hosts) expect(await each.ended(), each.output).toBe(0);
    const [first] = hosts;
    expect(first?.output).toMatch(
      /has not ended, but could not be reached: .* 4 ranks go on after/,
    );
    const found = printedRun(hosts.map(({ stdout }) => stdout).join('\n'));
    expect(new Set(found.beginnings.map(({ pid }) => pid)).size).toBe(4);
    expect(mostRepeatedSteps(found)).toBeLessThanOrEqual(1);
    await expectBits(found, stretchesOf(found, 8), join(cwd, 'out', 'metrics.jsonl'));
  });

  it('says on the other hosts that the run is over when the launcher that leads is killed, and what to do', async () => {
    const script = survivorScript({ steps: 1_000_000, pauseMs: 30, folder: cwd });
    const args = ['run', '--rdzv', rendezvous, '--nnodes', '2', '--nproc', '1', '--min-nproc', '1'];
    const host = (...options: readonly string[]): Command =>
      new Command([...args, '--max-restarts', '9', ...options, ...script], { cwd, env });
    const first = host('--node-rank', '0', '--run-dir', 'out');
    const second = host('--node-rank', '1');
    await first.says(/^step 2/m);
    first.kill('SIGKILL');
    expect(await second.ended(), second.output).toBe(1);
    expect(second.stderr).toMatch(/^The host of the store 127\S+ failed: (its connection|read E)/m);
    expect(second.stderr).toMatch(/lost node 0, which leads .* on node 0 with --resume latest/s);
    expect(second.stderr).not.toContain('restart budget');
  });

  it('refuses a host that says another number', async () => {
    const base = ['run', '--rdzv', rendezvous, '--nnodes', '2', '--nproc', '2'];
    const script = survivorScript({ steps: 1, pauseMs: 1, folder: cwd });
    const first = new Command([...base, '--node-rank', '0', '--min-nproc', '2', ...script], {
      cwd,
      env,
    });
    const second = new Command([...base, '--node-rank', '1', ...script], { cwd, env });
    expect(await second.ended()).toBe(2);
    expect(second.stderr).toMatch(/no --min-nproc.*node 0 has --min-nproc 2/);
    first.kill('SIGKILL');
    await first.ended();
  });
});
