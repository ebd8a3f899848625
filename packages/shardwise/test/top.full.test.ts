import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { parseSnapshot } from '../src/top/snapshot-text.ts';
import type { RunSnapshot } from '../src/top/run-snapshot.ts';
import { Command, fixture, freePort } from './command.ts';

const secret = 'a secret of this test alone';
const env = { SHARDWISE_SECRET: secret };
const train = fixture('train.ts');

let cwd = '';
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-top-'));
});

const top = (args: readonly string[], variables: NodeJS.ProcessEnv = {}): Command =>
  new Command(['top', ...args], { cwd, env: variables });

/** Runs `top --json` until it shows what is looked for. */
async function seen(
  args: readonly string[],
  isWanted: (run: RunSnapshot) => boolean,
  variables: NodeJS.ProcessEnv = {},
): Promise<RunSnapshot> {
  for (;;) {
    const command = top([...args, '--json'], variables);
    expect(await command.ended(), command.output).toBe(0);
    const run = parseSnapshot(command.stdout, 'the output of top');
    if (isWanted(run)) return run;
  }
}

describe('top of a run on this host', () => {
  it('shows its steps from another process, and then how it ended', async () => {
    const run = new Command(['run', '-n', '2', '--run-dir', 'runs/a', train, '100000', '5'], {
      cwd,
    });
    await run.says(/^step 1\//m);
    const running = await seen(['runs/a'], ({ step = 0 }) => step > 1);
    expect(running).toMatchObject({ phase: 'running', worldSize: 2, totalSteps: 100_000 });
    for (const { step } of running.ranks) expect(step).toBeGreaterThan(0);
    expect(running.tokensPerSecond).toBeGreaterThan(0);
    run.kill('SIGINT');
    await run.ended();
    const latest = top([]);
    expect(await latest.ended(), latest.output).toBe(0);
    expect(latest.stdout).toMatch(/^state {4}stopped {2}\d+s$/m);
    expect(latest.stdout.match(/ ended$/gm)).toHaveLength(2);
  });

  it('says that its launcher was killed', async () => {
    const run = new Command(['run', '--run-dir', 'killed', train, '100000', '5'], { cwd });
    await run.says(/^step 1\//m);
    run.kill('SIGKILL');
    await run.ended();
    for (;;) {
      const command = top(['killed']);
      expect(await command.ended(), command.output).toBe(0);
      // For a moment, a launcher that was killed and one that is about to write look the same.
      if (/The launcher has written nothing for \d+s: it is halted, or/.test(command.stdout)) break;
    }
  });

  it('shows restarts and the failure that ends the run', async () => {
    const run = new Command(
      [
        'run',
        '-n',
        '2',
        '--ranks',
        'processes',
        '--max-restarts',
        '1',
        '--run-dir',
        'failed',
        fixture('elastic.ts'),
        '8',
        '1',
        '1:5:kill',
        '2',
      ],
      { cwd },
    );
    expect(await run.ended(), run.output).toBe(137);
    const ended = await seen(['failed'], () => true);
    expect(ended).toMatchObject({ phase: 'failed', restarts: 1 });
    expect(ended.reason).toMatch(/^Rank 1 failed: its process was ended by SIGKILL/);
    expect(ended.ranks[1]).toMatchObject({ state: 'failed' });
  });

  it('ends with one error for what is no run', async () => {
    const command = top(['nowhere']);
    expect(await command.ended()).toBe(2);
    expect(command.stderr).toMatch(
      /^Showing the run of nowhere: there is no such directory\..*\n$/,
    );
  });
});

describe('top of a run on several hosts', () => {
  it('asks the first host by the secret of the job, writes a page, and ends with the run', async () => {
    const address = `127.0.0.1:${await freePort()}`;
    const options = ['run', '--nnodes', '2', '--rdzv', address];
    const host = (place: string): Command =>
      new Command(
        [...options, '--node-rank', place, '--run-dir', `host-${place}`, train, '100000', '5'],
        { cwd, env },
      );
    const hosts = [host('0'), host('1')];
    const run = await seen([address], ({ step = 0 }) => step > 1, env);
    expect(run.hosts).toHaveLength(2);
    expect(run.ranks.map(({ rank }) => rank)).toEqual([0, 1]);
    // Each rank sends its 16 bytes and the words by which the calls are compared.
    for (const { sentBytesPerSecond, receivedBytesPerSecond } of run.ranks) {
      expect(sentBytesPerSecond).toBeGreaterThan(16);
      expect(receivedBytesPerSecond).toBeGreaterThan(16);
    }

    const stranger = top([address], { SHARDWISE_SECRET: 'another secret of 16' });
    expect(await stranger.ended()).toBe(2);
    expect(stranger.stderr).toMatch(/secrets differ/);
    expect(stranger.output).not.toMatch(/a secret of this test|another secret/);

    const watching = top([address, '--page', 'top.html'], env);
    await watching.says(/^Page: top\.html$/m);
    expect(await readFile(join(cwd, 'top.html'), 'utf8')).toMatch(/refresh.*train\.ts/s);
    hosts[0]?.kill('SIGINT');
    expect(await watching.ended(), watching.output).toBe(0);
    expect(watching.stdout).toMatch(/^state {4}stopped {2}/m);
    expect(watching.stdout.match(/ ended$/gm)).toHaveLength(2);
    for (const each of hosts) await each.ended();
    expect(await readFile(join(cwd, 'top.html'), 'utf8')).not.toContain('refresh');
  });

  it('ends with one error where there is no secret, and no launcher', async () => {
    const address = `127.0.0.1:${await freePort()}`;
    const without = top([address], { SHARDWISE_SECRET: '' });
    expect(await without.ended()).toBe(2);
    expect(without.stderr).toMatch(/secret.*holds none/);
    const nobody = top([address], env);
    expect(await nobody.ended()).toBe(2);
    expect(nobody.stderr).toMatch(/^Connecting to the store at 127.*within 5000 ms.*\n$/);
  });
});
