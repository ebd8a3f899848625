import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate, setTimeout as delay } from 'node:timers/promises';
import { MemoryStore } from '@shardwise/collectives/node';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { initialRanks, reduceRanks } from '../src/run-state/rank-figures.ts';
import type { RunMessage } from '../src/run-state/run-message.ts';
import { coloured, uncoloured } from '../src/terminal/paint.ts';
import { LivePublisher } from '../src/top/live-publisher.ts';
import type { RunSnapshot } from '../src/top/run-snapshot.ts';
import { directorySource } from '../src/top/run-source.ts';
import { parseSnapshot, snapshotText } from '../src/top/snapshot-text.ts';
import { worstFirst } from '../src/top/take-snapshot.ts';
import { topLines, type TopView } from '../src/top/top-lines.ts';
import { topPage, writeTopPage } from '../src/top/top-page.ts';
import { runOf, stepReport } from './run-fixture.ts';
import { generation, snapshotOf, threeSteps } from './top-fixture.ts';

const viewOf = (run: RunSnapshot, more: Partial<TopView> = {}): TopView => ({
  run,
  history: [run],
  silentMs: undefined,
  ...more,
});

/** 64 ranks of 8 hosts, of which rank 17 is slow, rank 5 has been quiet and rank 40 was killed. */
const large = snapshotOf(
  [
    generation(8, 8),
    ...threeSteps(64, (rank) => (rank === 17 ? 134 : 100), {
      sentBytes: 12e6,
      receivedBytes: 11e6,
    }),
    { kind: 'exit', rank: 40, code: 137 },
  ],
  {
    worldSize: 64,
    quietMs: Array.from({ length: 64 }, (_, rank) => (rank === 5 ? 42_000 : 0)),
  },
);

describe('the figures of a rank', () => {
  it('are averages without the first step, of which later steps weigh more', () => {
    const ranks = [900, 100, 110].reduce(
      (before, stepMs, index) => reduceRanks(before, stepReport(0, index + 1, { stepMs })),
      initialRanks(1),
    );
    expect(ranks[0]?.recent?.stepMs).toBe(101);
    expect(ranks[0]?.last?.step).toBe(3);
  });

  it('begin again with each generation, of other ranks perhaps', () => {
    const before = reduceRanks(initialRanks(2), stepReport(1, 1));
    const after = reduceRanks(before, generation(1, 3));
    expect(after).toEqual(initialRanks(3));
    expect(reduceRanks(after, stepReport(7, 1))).toBe(after);
  });
});

describe('a snapshot', () => {
  it('says what a rank waits longer than the one that waits least, and how slow that one is', () => {
    const run = snapshotOf(
      threeSteps(3, (rank) => (rank === 1 ? 150 : 100)),
      { worldSize: 3 },
    );
    expect(run.ranks.map(({ waitingMs }) => waitingMs)).toEqual([50, 0, 50]);
    expect(run.ranks.map(({ state }) => state)).toEqual(['running', 'slow', 'running']);
    expect(run.ranks[1]?.slowness).toBeCloseTo(0.5);
  });

  it('calls no rank slow for a noise of less than a tenth or a millisecond', () => {
    const tenth = snapshotOf(threeSteps(2, (rank) => 100 + 9 * rank));
    const short = snapshotOf(threeSteps(2, (rank) => 2 + 0.9 * rank));
    for (const run of [tenth, short]) {
      expect(run.ranks.map(({ state }) => state)).toEqual(['running', 'running']);
    }
  });

  it('adds the rates of all ranks', () => {
    const wire = { samples: 8, sentBytes: 2000, receivedBytes: 1000 };
    const run = snapshotOf(threeSteps(2, () => 85, wire));
    expect(run).toMatchObject({
      tokensPerSecond: 20_000,
      samplesPerSecond: 160,
      sentBytesPerSecond: 40_000,
      receivedBytesPerSecond: 20_000,
      memoryBytes: 601 * 2 ** 20,
      stepMs: 100,
      leftMs: 9700,
    });
  });

  it('has no bytes of a network where ranks share memory', () => {
    const run = snapshotOf(threeSteps(2, () => 85));
    expect(run.sentBytesPerSecond).toBeUndefined();
    expect(topLines(viewOf(run), { columns: 160, rows: 40 }, uncoloured).join()).not.toMatch(
      /network|sent/,
    );
  });

  it('tells the states of ranks apart, the worst first', () => {
    const run = snapshotOf(
      [
        ...[1, 2, 3, 4].map((step) => stepReport(0, step)),
        stepReport(1, 1),
        ...[1, 2, 3, 4].map((step) => stepReport(3, step)),
        { kind: 'exit', rank: 3, code: 1 },
        ...[1, 2, 3, 4].map((step) => stepReport(4, step)),
      ],
      { worldSize: 5, quietMs: [0, 0, 0, 0, 6000] },
    );
    expect(worstFirst(run.ranks).map(({ rank, state }) => `${rank} ${state}`)).toEqual([
      '3 failed',
      '4 quiet',
      '1 behind',
      '2 waiting',
      '0 running',
    ]);
  });

  it('does not call a rank quiet whose steps are long, nor any when the run is over', () => {
    const long = threeSteps(2, () => 8000);
    expect(snapshotOf(long, { quietMs: [9000, 9000] }).ranks[0]?.state).toBe('running');
    const over = snapshotOf(
      threeSteps(2, () => 85),
      {
        quietMs: [60_000, 60_000],
        end: { phase: 'finished' },
      },
    );
    expect(over.ranks[0]?.state).toBe('ended');
  });

  it('has the worst of very many ranks, and the totals of all', () => {
    const worldSize = 1500;
    const messages: readonly RunMessage[] = [
      ...Array.from({ length: worldSize }, (_, rank) => stepReport(rank, 1)),
      { kind: 'exit', rank: 1499, code: 9 },
    ];
    const run = snapshotOf(messages, { worldSize });
    expect(run.ranks).toHaveLength(1024);
    expect(run.ranks.at(-1)).toMatchObject({ rank: 1499, state: 'failed' });
    expect(run.tokensPerSecond).toBeCloseTo(1500 * 10_000);
    expect(Buffer.byteLength(snapshotText(run))).toBeLessThan(2 ** 20);
    expect(topLines(viewOf(run), { columns: 80, rows: 24 }, uncoloured).at(-1)).toMatch(
      /^and 14\d\d more ranks, which are no worse$/,
    );
  });

  it('keeps a loss that has diverged as JSON', () => {
    const run = snapshotOf([stepReport(0, 1, { loss: NaN }), stepReport(1, 1, { loss: Infinity })]);
    const read = parseSnapshot(snapshotText(run), 'runs/a');
    expect(read.loss).toBeNaN();
    expect(read.ranks[1]?.loss).toBe(Infinity);
    expect(read).toEqual(parseSnapshot(snapshotText(read), 'runs/a'));
  });
});

describe('the lines of top', () => {
  const lines = (view: TopView, columns = 80, rows = 24): readonly string[] =>
    topLines(view, { columns, rows }, uncoloured);

  it('show the totals of a run, and of 64 ranks those that a terminal has room for', () => {
    expect(`\n${lines(viewOf(large)).join('\n')}`).toMatchInlineSnapshot(`
      "
      run      train.ts on 64 ranks of 8 hosts  runs/example
      state    running  1m 00s
      step     3/100  ━───────────────────────────────────────  3 %  ETA 14s
      loss     1.3333
      speed    430k tokens/s  149 ms/step
      time     compute 61 %  communication 33 % (22 % waiting)  data 3 %  graph 3 %
      memory   20.7 GiB, most on rank 63: 363 MiB
      network  sent 4.80 GiB/s  received 4.40 GiB/s
      slow     rank 17 on node-2 takes 34 % longer; others wait up to 34.0 ms a step

      rank  host    step  tokens/s  compute  comm  wait   memory  state
        40  node-5     3     6.71k     60 %  33 %  23 %  340 MiB  failed (137)
         5  node-0     3     6.71k     60 %  33 %  23 %  305 MiB  quiet 42s
        17  node-2     3     6.71k     81 %  10 %   0 %  317 MiB  slow +34 %
         0  node-0     3     6.71k     60 %  33 %  23 %  300 MiB
         1  node-0     3     6.71k     60 %  33 %  23 %  301 MiB
         2  node-0     3     6.71k     60 %  33 %  23 %  302 MiB
         3  node-0     3     6.71k     60 %  33 %  23 %  303 MiB
         4  node-0     3     6.71k     60 %  33 %  23 %  304 MiB
         6  node-0     3     6.71k     60 %  33 %  23 %  306 MiB
         7  node-0     3     6.71k     60 %  33 %  23 %  307 MiB
         8  node-1     3     6.71k     60 %  33 %  23 %  308 MiB
      and 53 more ranks, which are no worse"
    `);
  });

  it('show two ranks of one host with all columns, if there is room', () => {
    const steps = threeSteps(2, (rank) => 85 + rank, { samples: 4 });
    const run = snapshotOf([generation(1, 2), ...steps]);
    expect(`\n${lines(viewOf(run), 160).join('\n')}`).toMatchInlineSnapshot(`
      "
      run      train.ts on 2 ranks  runs/example
      state    running  1m 00s
      step     3/100  ━───────────────────────────────────────  3 %  ETA 10s
      loss     1.3333
      speed    19.8k tokens/s  79 samples/s  101 ms/step
      time     compute 76 %  communication 15 % (0 % waiting)  data 5 %  graph 4 %
      memory   601 MiB, most on rank 1: 301 MiB

      rank  step    loss  tokens/s  samples/s  step time  compute  comm  wait  data   memory
         1     3  1.3333     9.90k         40     101 ms     77 %  15 %   0 %   5 %  301 MiB
         0     3  1.3333     9.90k         40     101 ms     76 %  16 %   1 %   5 %  300 MiB"
    `);
  });

  it('say what a run that has no steps waits for', () => {
    const gathering = snapshotOf([]);
    expect(lines(viewOf(gathering))[1]).toBe('state    waiting to start  1m 00s');
    expect(lines(viewOf(snapshotOf([generation(1, 2)])))).toEqual([
      'run      train.ts on 2 ranks  runs/example',
      'state    starting  1m 00s',
      '',
      'rank  state',
      '   0  no step yet',
      '   1  no step yet',
    ]);
  });

  it('say how the ranks started again, and how the run ended', () => {
    const again = { ...generation(1, 2), reason: 'Rank 1 failed: out of memory' };
    expect(lines(viewOf(snapshotOf([again])))[1]).toBe(
      'state    starting  1m 00s  restart 1: Rank 1 failed: out of memory',
    );
    const failed = snapshotOf([stepReport(0, 1), stepReport(1, 1)], {
      end: { phase: 'failed', reason: 'Rank 0 failed: Error: no' },
    });
    expect(lines(viewOf(failed))[1]).toBe('state    failed: Rank 0 failed: Error: no  1m 00s');
  });

  it('say that the launcher is silent', () => {
    const view = viewOf(snapshotOf([generation(1, 2)]), { silentMs: 12_000 });
    expect(lines(view)[1]).toBe('state    starting  1m 00s  no word of its launcher for 12s');
  });

  it('never fill a line of the terminal or its height, however small it is', () => {
    for (const columns of [1, 8, 20, 40, 60, 80, 200]) {
      const found = lines(viewOf(large), columns, 20);
      expect(found.length).toBeLessThan(20);
      for (const line of found) expect(line.length).toBeLessThan(columns);
    }
  });

  it('are cut to terminals of a few rows', () => {
    for (const rows of [2, 5, 10, 12]) {
      expect(lines(viewOf(large), 80, rows)).toHaveLength(rows - 1);
    }
  });

  it('have the same text in colour', () => {
    const escape = '\u001B';
    const escapes = new RegExp(`${escape}\\[\\d+m`, 'g');
    const painted = topLines(viewOf(large), { columns: 90, rows: 24 }, coloured);
    expect(painted.map((line) => line.replaceAll(escapes, '').trimEnd())).toEqual(
      lines(viewOf(large), 90),
    );
  });

  it('cannot be broken by the texts of a run', () => {
    const run = { ...large, script: 'a\u001B[2Jb\nc', reason: 'x\ry' };
    expect(lines(viewOf(run)).join('\n')).toContain('a\uFFFD[2Jb c on 64 ranks');
    expect(lines(viewOf(run)).join('\n')).toContain('x\uFFFDy');
  });
});

describe('the page of top', () => {
  it('loads itself again while the run lasts, and escapes what comes from the run', () => {
    const page = topPage(viewOf({ ...large, script: '<script>alert(1)</script>' }));
    expect(page).toContain('<meta http-equiv="refresh" content="2">');
    expect(page).not.toContain('<script>');
    expect(page.match(/<tr class="/g)).toHaveLength(64);
    expect(page.indexOf('failed (137)')).toBeLessThan(page.indexOf('slow +34 %'));
    expect(topPage(viewOf({ ...large, phase: 'finished' }))).not.toContain('refresh');
  });

  it('draws what has been seen', () => {
    const history = [1, 2, 3].map((step) => ({ ...large, step, loss: 1 / step }));
    expect(topPage(viewOf(large, { history })).match(/<h2>(Loss|Speed)/g)).toHaveLength(2);
  });
});

describe('the snapshots of a run', () => {
  let directory = '';
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'top-'));
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  });
  afterEach(async () => {
    vi.useRealTimers();
    await rm(directory, { recursive: true });
  });

  const written = async (): Promise<RunSnapshot> =>
    parseSnapshot(await readFile(join(directory, 'live.json'), 'utf8'), 'here');

  function publish(store?: MemoryStore): {
    readonly publisher: LivePublisher;
    readonly notices: string[];
    readonly add: (message: RunMessage) => void;
  } {
    const notices: string[] = [];
    const run = { state: runOf([]), ranks: initialRanks(2) };
    const onNotice = (text: string): void => void notices.push(text);
    const publisher = new LivePublisher({ runDirectory: directory, run, store, onNotice });
    const messages: RunMessage[] = [];
    return {
      publisher,
      notices,
      add: (message) => {
        messages.push(message);
        run.state = runOf(messages);
        run.ranks = reduceRanks(run.ranks, message);
      },
    };
  }

  /** Waits, without any time of the fake clock, until a snapshot has been written. */
  async function snapshot(sequence: number): Promise<RunSnapshot> {
    for (;;) {
      const found = await written().catch(() => undefined);
      if (found?.sequence === sequence) return found;
      await setImmediate();
    }
  }

  it('are one a second, however many messages come', async () => {
    const { publisher, add } = publish();
    await snapshot(1);
    for (let step = 1; step <= 50; step += 1) add(stepReport(0, step));
    await vi.advanceTimersByTimeAsync(1000);
    expect((await snapshot(2)).ranks[0]?.step).toBe(50);
    await publisher.end({ phase: 'finished' });
    expect(await written()).toMatchObject({ sequence: 3, phase: 'finished' });
    await vi.advanceTimersByTimeAsync(5000);
    expect((await written()).sequence).toBe(3);
    expect(await readdir(directory)).toEqual(['live.json']);
  });

  it('say for how long a rank has not reported', async () => {
    const { publisher, add } = publish();
    await snapshot(1);
    add(stepReport(0, 1));
    await vi.advanceTimersByTimeAsync(1000);
    await snapshot(2);
    await vi.advanceTimersByTimeAsync(999);
    add(stepReport(1, 1));
    await publisher.end({ phase: 'stopped' });
    expect((await written()).ranks.map(({ quietMs }) => quietMs)).toEqual([999, 0]);
  });

  it('are in the store too, where the last one has a place of its own', async () => {
    const store = new MemoryStore();
    const { publisher } = publish(store);
    await store.wait(['live/latest']);
    await publisher.end({ phase: 'failed', reason: 'Rank 0 failed: Error' });
    const text = new TextDecoder().decode(await store.get('live/last'));
    expect(parseSnapshot(text, 'the store')).toMatchObject({ phase: 'failed' });
  });

  it('that could not be written once come a second later, without a notice', async () => {
    const { publisher, notices } = publish();
    await snapshot(1);
    await rm(directory, { recursive: true });
    await vi.advanceTimersByTimeAsync(1000);
    await delay(20);
    await mkdir(directory);
    await vi.advanceTimersByTimeAsync(1000);
    await snapshot(3);
    await publisher.end({ phase: 'finished' });
    expect(notices).toEqual([]);
  });

  it('end with one notice if the directory is lost, and the run goes on', async () => {
    const { publisher, notices } = publish();
    await snapshot(1);
    await rm(directory, { recursive: true });
    for (let second = 0; second < 10; second += 1) {
      await vi.advanceTimersByTimeAsync(1000);
      // Each writing must have failed before the next second, as it would have.
      await delay(20);
    }
    await publisher.end({ phase: 'finished' });
    await mkdir(directory);
    expect(notices).toEqual([expect.stringMatching(/no longer finds this run.*ENOENT/)]);
  });
});

describe('a run that cannot be shown', () => {
  let directory = '';
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'top-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  const refusal = (path = directory): Promise<unknown> => directorySource(path).read();

  it('does not exist', async () => {
    await expect(refusal(join(directory, 'none'))).rejects.toThrow(/no such directory.*HOST:PORT/);
  });

  it('is shown on another host', async () => {
    await mkdir(join(directory, 'flight'));
    await expect(refusal()).rejects.toThrow(/not? run whose steps.*with rank 0, or HOST:PORT/);
  });

  it('was started by a version that shows none', async () => {
    await writeFile(join(directory, 'metrics.jsonl'), '');
    await writeFile(join(directory, 'report.html'), '');
    await expect(refusal()).rejects.toThrow(/a run without live\.json.*report\.html/);
  });

  it('is of a version with another format', async () => {
    await writeFile(join(directory, 'live.json'), '{"format":9,"version":"7.1.0","ranks":{}}');
    await expect(refusal()).rejects.toThrow(
      /shardwise 7\.1\.0 runs it and writes format 9; this version reads format 1/,
    );
  });

  it('is no run at all, or too long', async () => {
    const path = join(directory, 'live.json');
    for (const [text, found] of [
      ['{', /it is not JSON/],
      ['[]', /what no launcher of this version writes/],
      [snapshotText({ ...large, worldSize: -1 }), /worldSize: Too small/],
      [' '.repeat(2 ** 20 + 1), /more than 1048576 bytes/],
    ] as const) {
      await writeFile(path, text);
      await expect(refusal()).rejects.toThrow(found);
    }
  });

  it('has a page that cannot be written', async () => {
    await expect(writeTopPage(join(directory, 'none', 'top.html'), viewOf(large))).rejects.toThrow(
      /ENOENT/,
    );
  });
});
