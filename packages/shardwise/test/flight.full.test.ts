import { mkdtemp, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConfigError } from '@shardwise/core';
import { singleGroup } from '@shardwise/collectives';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { recordFlight } from '../src/blame/record-flight.ts';
import { runVerdict } from '../src/blame/run-verdict.ts';
import { runCli } from '../src/cli/run-cli.ts';
import { failureReport } from '../src/launcher/failure.ts';
import { launch } from '../src/launcher/launch.ts';
import type { LaunchResult } from '../src/launcher/ranks/rank-handle.ts';
import { createRankTransport } from '../src/launcher/transports/create-rank-transport.ts';
import { generationOf } from './generation-of.ts';

const script = join(import.meta.dirname, 'fixtures', 'skip-a-call.ts');

interface Run {
  readonly runDirectory: string;
  readonly result: LaunchResult;
  /** The lines of the verdict, without the working directory. */
  readonly verdict: readonly string[];
}

async function run(outcome: string, environment: NodeJS.ProcessEnv = {}): Promise<Run> {
  const runDirectory = await mkdtemp(join(tmpdir(), 'shardwise-flight-'));
  const generation = generationOf(3, runDirectory);
  const transport = await createRankTransport(generation, 'threads');
  const result = await launch({
    script,
    args: [outcome],
    form: 'threads',
    generation,
    runId: 'flight',
    maxRestarts: 0,
    environment: { ...process.env, ...environment },
    transport,
    stop: new AbortController().signal,
    signal: new AbortController().signal,
    onMessage: () => undefined,
    onLine: () => undefined,
    graceMs: 1500,
  });
  transport.close();
  const lines = await runVerdict(runDirectory);
  const folder = `${join('packages', 'shardwise', 'test', 'fixtures')}/`;
  const verdict = lines.map((line) => line.replaceAll(folder, ''));
  return { runDirectory, result, verdict };
}

afterEach(() => void vi.restoreAllMocks());

describe('a run of three ranks', () => {
  it('names the rank that left out a call, with what each one called and where', async () => {
    const { result, verdict, runDirectory } = await run('skip');
    expect(verdict).toEqual([
      'Rank 1 differs first, at call #1 of group world:',
      '  ranks 0, 2  allReduce(sum, f32 [4]) at skip-a-call.ts:16 (reduceGradients)',
      '  rank 1      barrier() at skip-a-call.ts:19 (waitForAll)',
      `  (from the ranks' last calls: shardwise blame ${join(runDirectory, 'flight')})`,
    ]);
    expect(failureReport(result, { verdict })).toContain(verdict[0]);
    expect(failureReport(result, { verdict })[0]).toContain('CollectiveMismatchError');
  });

  it('names the rank that threw before a call for which the others wait', async () => {
    const { verdict } = await run('throw');
    expect(verdict.slice(0, 3)).toEqual([
      'Rank 1 is missing first, at call #1 of group world:',
      '  ranks 0, 2  allReduce(sum, f32 [4]) at skip-a-call.ts:16 (reduceGradients)',
      '  rank 1      its last call was #0, broadcast(root 0, f32 [4]) at skip-a-call.ts:13 (prepare), completed',
    ]);
  });

  it('names the rank that finished with one call fewer', async () => {
    const { verdict } = await run('leave');
    expect(verdict[0]).toBe('Rank 1 is missing first, at call #2 of group world:');
    expect(verdict[2]).toMatch(/rank 1 .* its last call was #1, allReduce\(sum, f32 \[4\]\)/);
  });

  it('names the rank whose thread is blocked, which can leave no dump', async () => {
    const { verdict, result } = await run('block');
    expect(result.outcomes[1]?.terminated).toBe(true);
    expect(verdict[0]).toBe('Rank 1 is missing first, at call #1 of group world:');
    expect(verdict[2]).toMatch(/rank 1 {6}left no dump/);
  });

  it('names the rank that came too late', async () => {
    const { verdict } = await run('late');
    expect(verdict[0]).toBe('Rank 1 is missing first, at call #1 of group world:');
    expect(verdict[2]).toMatch(/rank 1 .* came \d\.\d s after the others had given up: allReduce/);
  });

  it('leaves dumps that agree where nothing fails', async () => {
    const { verdict, runDirectory } = await run('finish');
    expect(verdict).toEqual([]);
    const stdout = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
    expect(await runCli(['node', 'shardwise', 'blame', runDirectory])).toBe(0);
    expect(stdout.mock.calls).toEqual([
      ['No rank differs: all 9 calls that the dumps hold, on 1 groups, agree and are completed.\n'],
    ]);
  });

  it('keeps no record where its size is 0', async () => {
    const { verdict, runDirectory } = await run('leave', { SHARDWISE_FLIGHT_RECORDER_SIZE: '0' });
    expect(verdict).toEqual([]);
    expect(await readdir(runDirectory)).toEqual(['logs']);
  });

  it('keeps as many calls as it is told to', async () => {
    const { runDirectory } = await run('finish', { SHARDWISE_FLIGHT_RECORDER_SIZE: '2' });
    const text = await readFile(join(runDirectory, 'flight', 'rank-2.json'), 'utf8');
    expect(JSON.parse(text)).toMatchObject({
      rank: 2,
      entries: [{ profiling_name: 'shardwise:allReduce' }, { profiling_name: 'shardwise:barrier' }],
    });
  });
});

describe('shardwise blame', () => {
  it('prints the verdict as JSON', async () => {
    const { runDirectory } = await run('skip');
    const stdout = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
    expect(await runCli(['node', 'shardwise', 'blame', '--json', runDirectory])).toBe(0);
    expect(JSON.parse(String(stdout.mock.calls[0]?.[0]))).toMatchObject({
      ranks: [0, 1, 2],
      unreadable: [],
      verdict: { kind: 'differs', group: 'world', sequence: 1, culprits: [1] },
    });
  });

  it('refuses a folder without dumps', async () => {
    const stderr = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    expect(await runCli(['node', 'shardwise', 'blame', import.meta.dirname])).toBe(2);
    expect(String(stderr.mock.calls[0]?.[0])).toContain('there is no rank-N.json');
  });
});

describe('SHARDWISE_FLIGHT_RECORDER_SIZE', () => {
  it.each(['many', '-1', '1e3', '999999'])('is refused where it is %s', (size) => {
    const environment = { SHARDWISE_FLIGHT_RECORDER_SIZE: size };
    expect(() => recordFlight(singleGroup(), () => tmpdir(), environment)).toThrow(ConfigError);
  });
});
