import { describe, expect, it } from 'vitest';
import { liveBlock } from '../src/terminal/live-block.ts';
import { LiveOutput } from '../src/terminal/live-output.ts';
import { coloured, uncoloured } from '../src/terminal/paint.ts';
import { plainLine, PlainOutput } from '../src/terminal/plain-output.ts';
import { Screen } from '../src/terminal/screen.ts';
import { formatBytes, formatDuration, formatLoss, formatMilliseconds } from '../src/text/format.ts';
import { sparkline } from '../src/text/sparkline.ts';
import { reports, runOf, stepReport } from './run-fixture.ts';

const ESCAPE = '\u001B';

class RecordingStream {
  text = '';
  columns = 80;
  write(text: string): void {
    this.text += text;
  }
}

describe('the live block', () => {
  const running = runOf([
    ...reports(40),
    stepReport(0, 41, { validationLoss: 0.11 }),
    stepReport(1, 41),
    { kind: 'process-memory', bytes: 1.2 * 2 ** 30 },
  ]);

  it('shows step, loss, speed, time and memory of the run', () => {
    expect(`\n${liveBlock(running, 100, uncoloured).join('\n')}`).toMatchInlineSnapshot(`
      "
      run      train.ts on 2 ranks  runs/example
      step     41/100  ━━━━━━━━━━━━━━━━────────────────────────  41 %  ETA 6s
      loss     0.0976  █▄▃▃▂▂▂▂▂▂▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁  validation 0.1100
      speed    20.0k tokens/s  100 ms/step
      time     ████████████████████  compute 70 %  communication 15 %  data 5 %  graph 4 %  other 6 %
      memory   rank 0 300 MiB · rank 1 301 MiB · process 1.20 GiB"
    `);
  });

  it('says that it waits before the first step', () => {
    expect(liveBlock(runOf([]), 80, uncoloured)).toMatchInlineSnapshot(`
      [
        "run      train.ts on 2 ranks  runs/example",
        "step     waiting for the first step",
      ]
    `);
  });

  it('says how to stop at once after the first Ctrl-C, until all ranks are gone', () => {
    const stopping = runOf([...reports(1), { kind: 'stopping' }]);
    expect(liveBlock(stopping, 80, uncoloured).at(-1)).toMatchInlineSnapshot(
      `"stop     stopping at the next shouldStop(); press Ctrl-C again to stop at once"`,
    );
    const gone = runOf([
      ...reports(1),
      { kind: 'stopping' },
      { kind: 'exit', rank: 0, code: 0 },
      { kind: 'exit', rank: 1, code: 0 },
    ]);
    expect(liveBlock(gone, 80, uncoloured).some((line) => line.includes('Ctrl-C'))).toBe(false);
  });

  it('never fills a line of the terminal, however narrow', () => {
    for (const columns of [1, 8, 20, 40, 60, 80, 200]) {
      for (const line of liveBlock(running, columns, uncoloured)) {
        expect(line.length).toBeLessThan(columns);
      }
    }
  });

  it('has the same text in colour', () => {
    const escapes = new RegExp(`${ESCAPE}\\[\\d+m`, 'g');
    const plain = liveBlock(running, 90, coloured).map((line) =>
      line.replaceAll(escapes, '').trimEnd(),
    );
    expect(plain).toEqual(liveBlock(running, 90, uncoloured));
  });

  it("shows the script's own metrics with their course, what was reported last", () => {
    const own = runOf(
      [1, 2, 3, 4].map((step) =>
        stepReport(0, step, {
          metrics: {
            accuracy: step / 5,
            ...(step === 2 ? { 'F1/validation': 0.61234, constructor: 12 } : {}),
          },
        }),
      ),
      1,
    );
    expect(liveBlock(own, 80, uncoloured)[3]).toBe(
      'metrics  accuracy 0.8000 ▁▃▆█  F1/validation 0.6123 ▁  constructor 12 ▁',
    );
  });

  it('shows as many metrics as three rows hold, and how many more there are', () => {
    const metrics = Object.fromEntries(
      Array.from({ length: 20 }, (_, index) => [`metric ${index}`, index / 7]),
    );
    const many = runOf([stepReport(0, 1, { metrics })], 1);
    for (const columns of [30, 60, 100]) {
      const lines = liveBlock(many, columns, uncoloured);
      const first = lines.findIndex((line) => line.startsWith('metrics'));
      const rows = lines.slice(
        first,
        lines.findIndex((line) => line.startsWith('speed')),
      );
      expect(rows).toHaveLength(3);
      if (columns > 30) expect(rows[2]).toMatch(/ {2}and \d+ more$/);
      for (const line of lines) expect(line.length).toBeLessThan(columns);
    }
  });

  it('shows a loss that has diverged', () => {
    const diverged = runOf([stepReport(0, 1, { loss: NaN }), stepReport(1, 1)]);
    expect(liveBlock(diverged, 80, uncoloured)[2]).toBe('loss     NaN');
  });
});

describe('a line of plain output', () => {
  it('has what the block has, without escape codes', () => {
    expect(plainLine(runOf(reports(3)))).toMatchInlineSnapshot(
      `"step 3/100  loss 1.3333  20.0k tokens/s  100 ms (compute 70.0 ms, communication 15.0 ms, data 5.00 ms)  ETA 10s"`,
    );
  });

  it("has the step's own metrics", () => {
    const metrics = { accuracy: 0.5, 'learning rate': 0.0003, epoch: 2, ratio: NaN };
    const line = plainLine(runOf([stepReport(0, 1, { metrics })], 1));
    expect(line).toContain(
      'loss 4.0000  accuracy 0.5000  learning rate 3.000e-4  epoch 2  ratio NaN  10.0k tokens/s',
    );
  });

  it('is not there before the first step', () => {
    expect(plainLine(runOf([stepReport(0, 1)]))).toBeUndefined();
  });
});

describe('the screen', () => {
  it('replaces the block and lets other lines scroll by above it', () => {
    const stream = new RecordingStream();
    const screen = new Screen(stream);
    screen.draw(['one', 'two']);
    screen.draw(['three'], ['log']);
    expect(stream.text).toBe(`one\ntwo\n${ESCAPE}[2A\r${ESCAPE}[Jlog\nthree\n`);
  });

  it('erases the lines that a narrower terminal has wrapped', () => {
    const stream = new RecordingStream();
    const screen = new Screen(stream);
    screen.draw(['x'.repeat(70), coloured('y', 'red')]);
    stream.columns = 30;
    stream.text = '';
    screen.draw([]);
    expect(stream.text).toBe(`${ESCAPE}[4A\r${ESCAPE}[J`);
  });
});

describe('output to a terminal', () => {
  it('names the rank of every line but those of rank 0, and ends with the block', () => {
    const stream = new RecordingStream();
    const output = new LiveOutput(stream, uncoloured);
    output.rankLine(0, 'from rank 0');
    output.rankLine(1, 'from rank 1');
    output.update(runOf(reports(100)));
    output.end();
    expect(stream.text).toMatch(
      /^from rank 0\n\[rank 1\] from rank 1\nrun {6}train\.ts on 2 ranks/,
    );
    expect(stream.text).toContain('100/100');
  });

  it('says once, and where it changes, how the ranks reach each other', () => {
    const generation = {
      kind: 'generation',
      epoch: 0,
      worldSize: 2,
      transport: 'shm (2 processes)',
      hosts: [],
    } as const;
    const later = { ...generation, transport: 'shm (1 process)', worldSize: 1 };
    const states = [
      runOf([generation]),
      runOf([generation, ...reports(1)]),
      runOf([generation, later]),
    ];
    const live = new RecordingStream();
    const plain = new RecordingStream();
    const outputs = [
      new LiveOutput(live, uncoloured),
      new PlainOutput({ stdout: plain, stderr: new RecordingStream() }),
    ];
    for (const output of outputs) {
      for (const state of states) output.update(state);
      output.end();
    }
    for (const { text } of [live, plain]) {
      expect(text.match(/^transport: .*$/gm)).toEqual([
        'transport: shm (2 processes)',
        'transport: shm (1 process)',
      ]);
    }
  });

  it('lets no rank move the cursor, though it may use colours', () => {
    const stream = new RecordingStream();
    const output = new LiveOutput(stream, uncoloured);
    output.rankLine(0, `${ESCAPE}[31mred${ESCAPE}[39m${ESCAPE}[2Jgone\rover\tthere`);
    output.end();
    expect(stream.text).toBe(`${ESCAPE}[31mred${ESCAPE}[39m\uFFFD[2Jgone\uFFFDover\tthere\n`);
  });

  it('leaves no block of a script that reports no steps', () => {
    const stream = new RecordingStream();
    const output = new LiveOutput(stream, uncoloured);
    output.rankLine(0, 'done');
    output.update(runOf([{ kind: 'process-memory', bytes: 1 }]));
    output.end();
    expect(stream.text).toBe('done\n');
  });
});

describe('output to a file', () => {
  function record(states: readonly Parameters<PlainOutput['update']>[0][]): string {
    const stream = new RecordingStream();
    const output = new PlainOutput({ stdout: stream, stderr: stream });
    for (const state of states) output.update(state);
    output.end();
    return stream.text;
  }

  it('has a line for the first step, then one a second, and one for the last', () => {
    const states = Array.from({ length: 25 }, (_, index) => runOf(reports(index + 1)));
    const steps = [...record(states).matchAll(/^step (\d+)/gm)].map(([, step]) => Number(step));
    expect(steps).toEqual([1, 11, 21, 25]);
  });

  it('says once that the run is stopping', () => {
    const stopping = runOf([...reports(1), { kind: 'stopping' }]);
    expect(record([stopping, stopping]).match(/press Ctrl-C again/g)).toHaveLength(1);
  });

  it('has no escape codes', () => {
    expect(record([runOf(reports(3))])).not.toContain(ESCAPE);
  });
});

describe('figures', () => {
  it('have three digits and a unit', () => {
    expect([0, 999, 1024, 1536 * 1024, 2 ** 40].map(formatBytes)).toEqual([
      '0 B',
      '999 B',
      '1.00 KiB',
      '1.50 MiB',
      '1.00 TiB',
    ]);
    expect([0, 0.5, 12.34, 165, 2310].map(formatMilliseconds)).toEqual([
      '0 ms',
      '0.50 ms',
      '12.3 ms',
      '165 ms',
      '2.31 s',
    ]);
  });

  it('of durations are those of a clock', () => {
    expect([0, 59_600, 192_000, 7_500_000].map(formatDuration)).toEqual([
      '0s',
      '1m 00s',
      '3m 12s',
      '2h 05m',
    ]);
  });

  it('of losses keep tiny and diverged ones readable', () => {
    expect([2.5, 0, 1e-6, 123456, NaN].map(formatLoss)).toEqual([
      '2.5000',
      '0.0000',
      '1.000e-6',
      '1.235e+5',
      'NaN',
    ]);
  });
});

describe('a sparkline', () => {
  it('spans the lowest to the highest value', () => {
    expect(sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8)).toBe('▁▂▃▄▅▆▇█');
  });

  it('averages what shares a column', () => {
    expect(sparkline([0, 0, 7, 7], 2)).toBe('▁█');
  });

  it('is flat for equal values, and has gaps for what is no number', () => {
    expect(sparkline([3, 3, 3], 8)).toBe('▁▁▁');
    expect(sparkline([0, NaN, 7], 8)).toBe('▁ █');
    expect(sparkline([], 8)).toBe('');
  });
});
