import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { failureReport } from '../src/launcher/failure.ts';
import { launch, type LaunchOptions } from '../src/launcher/launch.ts';
import type { LaunchResult } from '../src/launcher/ranks/rank-handle.ts';
import { createRankTransport } from '../src/launcher/transports/create-rank-transport.ts';
import type { RunMessage } from '../src/run-state/run-message.ts';
import { generationOf } from './generation-of.ts';

interface Run {
  readonly result: LaunchResult;
  readonly lines: readonly string[];
  readonly messages: readonly RunMessage[];
  readonly aborts: readonly string[];
  readonly runDirectory: string;
}

interface RunOptions extends Partial<LaunchOptions> {
  readonly worldSize?: number;
}

async function run(fixture: string, { worldSize = 2, ...options }: RunOptions = {}): Promise<Run> {
  const runDirectory = await mkdtemp(join(tmpdir(), 'shardwise-launch-'));
  const lines: string[] = [];
  const messages: RunMessage[] = [];
  const aborts: string[] = [];
  const generation = generationOf(worldSize, runDirectory);
  const form = options.form ?? 'threads';
  const transport = await createRankTransport(generation, form);
  const result = await launch({
    script: join(import.meta.dirname, 'fixtures', fixture),
    args: [],
    form,
    generation,
    runId: basename(runDirectory),
    maxRestarts: 0,
    environment: process.env,
    transport: {
      ...transport,
      abort: (rank, reason) => {
        aborts.push(`${rank}: ${reason}`);
        transport.abort(rank, reason);
      },
    },
    stop: new AbortController().signal,
    signal: new AbortController().signal,
    onMessage: (message) => messages.push(message),
    onLine: (rank, line, stream) => lines.push(`${rank} ${stream} ${line}`),
    graceMs: 0,
    ...options,
  });
  transport.close();
  return { result, lines, messages, aborts, runDirectory };
}

describe('a launch', () => {
  it('runs the script on every rank and hands on what each writes, line by line', async () => {
    const { result, lines } = await run('outcomes.ts');
    expect(result.culprit).toBeUndefined();
    expect(result.outcomes.map(({ exitCode }) => exitCode)).toEqual([0, 0]);
    expect(lines.toSorted()).toEqual([
      '0 stderr rank 0 warns',
      '0 stdout rank 0 starts',
      '1 stderr rank 1 warns',
      '1 stdout rank 1 starts',
    ]);
  });

  it('keeps the whole output of each rank in its log', async () => {
    const { runDirectory, result } = await run('outcomes.ts');
    const log = await readFile(join(runDirectory, 'logs', 'rank-1.log'), 'utf8');
    expect(log.split('\n').sort()).toEqual(['', 'rank 1 starts', 'rank 1 warns']);
    expect(result.outcomes[1]?.logPath).toBe(join(runDirectory, 'logs', 'rank-1.log'));
  });

  it("gives each rank torchrun's variables, the launcher's own and the script's arguments", async () => {
    const { lines, runDirectory } = await run('environment.ts', {
      args: ['--lr', '1e-3', '--nproc'],
      environment: {
        ...process.env,
        SHARDWISE_TEST: 'kept',
        SHARDWISE_SECRET: 'of launchers',
        RANK: '77',
      },
    });
    const given = lines
      .toSorted()
      .map((line): unknown => JSON.parse(line.slice('0 stdout '.length)));
    const variables = (rank: string): Record<string, string> => ({
      RANK: rank,
      WORLD_SIZE: '2',
      LOCAL_RANK: rank,
      LOCAL_WORLD_SIZE: '2',
      GROUP_RANK: '0',
      ROLE_RANK: rank,
      ROLE_WORLD_SIZE: '2',
      MASTER_ADDR: '127.0.0.1',
      MASTER_PORT: '29500',
      TORCHELASTIC_RESTART_COUNT: '0',
      TORCHELASTIC_MAX_RESTARTS: '0',
      TORCHELASTIC_RUN_ID: runDirectory.split('/').at(-1) ?? '',
      SHARDWISE_TEST: 'kept',
    });
    const argv = ['--lr', '1e-3', '--nproc'];
    expect(given).toEqual([
      { argv, variables: variables('0') },
      { argv, variables: variables('1') },
    ]);
  });

  it('ends every rank at once when it is told to', async () => {
    const { result } = await run('outcomes.ts', {
      args: ['wait'],
      worldSize: 3,
      signal: AbortSignal.abort(),
    });
    expect(result.outcomes.map(({ terminated }) => terminated)).toEqual([true, true, true]);
    expect(result.culprit).toBeUndefined();
  });
});

describe('a rank that fails', () => {
  it('by throwing is named with its own error, and the others are ended', async () => {
    const { result, aborts } = await run('outcomes.ts', { args: ['throw'] });
    expect(aborts).toEqual(['1: PlannedError: the plan failed']);
    expect(result.culprit).toBe(1);
    const report = failureReport(result);
    expect(report[0]).toBe('Rank 1 failed first: PlannedError: the plan failed');
    expect(report[1]).toMatch(/^ {4}at .*outcomes\.ts:13/);
    expect(report).toContain('  caused by Error: rain');
    expect(report).toContain('  | rank 1 starts');
    expect(report.join('\n')).toMatch(/The last lines of rank 1 \(all of them: .*rank-1\.log\)/);
    expect(report.at(-1)).toBe('Rank 0: ended by the launcher');
  });

  it.each([
    ['exit', 3, 'Rank 1 failed first: exit code 3'],
    ['throw-text', 1, 'Rank 1 failed first: only a text'],
    ['never', 13, 'Rank 1 failed first: exit code 13 (a promise it awaited can never settle)'],
  ])('by "%s" is named with code %i', async (outcome, exitCode, headline) => {
    const { result } = await run('outcomes.ts', { args: [outcome] });
    expect(result.outcomes[1]?.exitCode).toBe(exitCode);
    expect(failureReport(result)[0]).toBe(headline);
  });

  it('releases those that wait for it in a collective, and stays the culprit', async () => {
    const { result } = await run('communicate.ts', {
      worldSize: 3,
      graceMs: 30_000,
    });
    const report = failureReport(result);
    expect(report[0]).toBe('Rank 1 failed first: RangeError: rank 1 gives up');
    expect(report.at(-2)).toMatch(/^Rank 0: CollectiveAbortedError: .*rank 1/);
    expect(report.at(-1)).toMatch(/^Rank 2: CollectiveAbortedError: .*rank 1/);
    expect(result.outcomes.map(({ terminated }) => terminated)).toEqual([false, false, false]);
  });
});
