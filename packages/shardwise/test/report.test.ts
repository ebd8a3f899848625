import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { chromeTrace } from '../src/report/chrome-trace.ts';
import { extent, formatTick, linearScale } from '../src/report/scale.ts';
import { htmlReport } from '../src/report/html-report.ts';
import { simulatedStages } from '../src/report/simulated-stages.ts';
import { representativeStep } from '../src/report/timeline-chart.ts';
import type { Timeline, TimelineEntry } from '../src/run-state/run-message.ts';
import { profileOf } from './profile-fixture.ts';
import { head, reports, runOf, stepReport } from './run-fixture.ts';

const traceSchema = z.object({
  traceEvents: z.array(
    z.looseObject({
      name: z.string(),
      cat: z.string().optional(),
      pid: z.number(),
      tid: z.number(),
      ts: z.number().optional(),
      dur: z.number().optional(),
    }),
  ),
});

function entry(name: string, category: TimelineEntry['category'], atMs: number): TimelineEntry {
  return { name, category, startMs: head.startMs + atMs, durationMs: 10, bytes: 4096 };
}

function timeline(rank: number, step: number, durationMs = 100): Timeline {
  return {
    kind: 'timeline',
    rank,
    step,
    startMs: head.startMs,
    endMs: head.startMs + durationMs,
    events: [entry('forward', 'compute', 5), entry('allReduce', 'collective', 20)],
  };
}

const startsTwice: readonly [name: string, atMs: number][] = [
  ['0F0', 5],
  ['0B0', 15],
  ['0F0', 25],
  ['0B0', 35],
];

const run = runOf([
  ...reports(40),
  stepReport(0, 41, { validationLoss: 0.5, learningRate: 3e-4 }),
  stepReport(1, 41, { learningRate: 3e-4 }),
  timeline(0, 4),
  timeline(1, 4),
  { kind: 'facts', rank: 0, facts: { parameters: 3_260_416 } },
  { kind: 'checkpoint', rank: 0, step: 41, directory: '/runs/example/checkpoints/step-000041' },
  { kind: 'exit', rank: 0, code: 0 },
  { kind: 'exit', rank: 1, code: 0 },
]);

describe('the report', () => {
  const html = htmlReport(run);

  it('has every chart, the facts of the run and where its checkpoint is', () => {
    for (const title of [
      'Loss',
      'Throughput',
      'Step time',
      'Memory of tensors per rank',
      'Learning rate',
      'Timeline of step 4',
      'This run',
    ]) {
      expect(html).toContain(`<h2>${title}</h2>`);
    }
    expect(html).toContain('<th scope="row">Parameters</th><td><code>3,260,416');
    expect(html).toContain(head.command);
    expect(html).toContain('step-000041');
    expect(html).toContain('<span class="chip finished">finished</span>');
  });

  it('has a row for the actions of a pipeline where there are some', () => {
    const piped = { ...timeline(0, 2), events: [entry('1F0', 'stage', 5)] };
    const page = htmlReport(runOf([stepReport(0, 2), piped], 1));
    expect(page).toContain('>stages</text>');
    expect(page).toContain('data-tip="1F0\n');
    expect(html).not.toContain('>stages</text>');
  });

  it('draws what ranks of a pipeline did beside what they would have done by the simulator', () => {
    const did = (rank: number, actions: readonly [name: string, atMs: number][]): Timeline => ({
      ...timeline(rank, 2),
      events: actions.map(([name, atMs]) => entry(name, 'stage', atMs)),
    });
    const first = did(0, [
      ['0F0', 5],
      ['0F1', 15],
      ['0B0', 45],
      ['0B1', 60],
    ]);
    const second = did(1, [
      ['1F0', 20],
      ['1B0', 30],
      ['1F1', 40],
      ['1B1', 50],
    ]);
    const simulated = simulatedStages([first, second]);
    const startsOf = (rank: number): unknown[] =>
      (simulated?.events.get(rank) ?? []).map(({ name, startMs }) => [
        name,
        startMs - head.startMs,
      ]);
    // Each action takes ten milliseconds and starts as soon as its inputs are there.
    expect(startsOf(0)).toEqual([
      ['0F0', 5],
      ['0F1', 15],
      ['0B0', 35],
      ['0B1', 55],
    ]);
    expect(startsOf(1)).toEqual([
      ['1F0', 15],
      ['1B0', 25],
      ['1F1', 35],
      ['1B1', 45],
    ]);
    expect(simulated?.bubble).toBeCloseTo(1 - 80 / (2 * 65));
    expect(simulated?.simulatedBubble).toBeCloseTo(1 - 80 / (2 * 60));
    const page = htmlReport(runOf([stepReport(0, 2), first, second], 2));
    expect(page).toContain('>simulated</text>');
    expect(page).toContain(
      'Ranks waited 38.5 % of the time from the first action to the last, simulated 33.3 %',
    );
    // Of two pipelines along another axis, each is simulated by itself.
    const replicas = [first, { ...first, rank: 1 }, { ...second, rank: 2 }, { ...second, rank: 3 }];
    const both = simulatedStages(replicas);
    expect(both?.events.get(3)).toEqual(simulated?.events.get(1));
    // Two passes in one step do not match any schedule.
    expect(simulatedStages([did(0, [...startsTwice])])).toBeNull();
    expect(html).not.toContain('>simulated</text>');
  });

  it('shows what the memory of a rank holds, where the script tells it', () => {
    const memory = {
      parameterBytes: 4 * 2 ** 20,
      gradientBytes: 4 * 2 ** 20,
      optimizerBytes: 8 * 2 ** 20,
      bufferBytes: 0,
      hostBytes: 0,
      otherBytes: 2 ** 20,
      bytesInUse: 17 * 2 ** 20,
      peakBytes: 20 * 2 ** 20,
    };
    const page = htmlReport(
      runOf(
        [1, 2].map((step) => stepReport(0, step, { memory })),
        1,
      ),
    );
    expect(page).toContain('<h2>What the memory of a rank holds</h2>');
    expect(page).toContain('</i>gradients</span>');
    expect(page).not.toMatch(/NaN|Infinity|undefined/);
  });

  it("has a chart of each of the script's own metrics, and one of those that share a name", () => {
    const page = htmlReport(
      runOf(
        Array.from({ length: 40 }, (_, index) =>
          stepReport(0, index + 1, {
            metrics: {
              'accuracy/train': index / 50,
              ...(index % 10 === 9 ? { 'accuracy/validation': index / 60 } : {}),
              Loss: 3,
            },
          }),
        ),
        1,
      ),
    );
    expect(page.match(/<h2>accuracy<\/h2>/g)).toHaveLength(1);
    expect(page).toMatch(/<\/i>train<\/span><span><i [^>]*><\/i>validation<\/span>/);
    expect(page).toContain('<b>0.7800</b><span>accuracy/train</span>');
    expect(page).toContain('<b>0.6500</b><span>accuracy/validation</span>');
    const ids = [...page.matchAll(/<clipPath id="([^"]+)"/g)].map(([, id]) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('asks nothing of the network or of other files', () => {
    expect(html).not.toMatch(/\b(src|href)=|url\((?!#)|@import|https?:|fetch\(|import\(/);
  });

  it('has no unfinished number in its drawings', () => {
    expect(html).not.toMatch(/NaN|Infinity|undefined/);
  });

  it('says stopped and failed where the run was', () => {
    const exits = (code: number) =>
      [0, 1].map((rank) => ({ kind: 'exit', rank, code: rank * code }) as const);
    expect(htmlReport(runOf([...reports(1), { kind: 'stopping' }, ...exits(0)]))).toContain(
      'chip stopped',
    );
    expect(htmlReport(runOf([...reports(1), ...exits(3)]))).toContain('chip failed');
    expect(htmlReport(runOf(reports(1)), { isOver: false })).toContain('chip running');
  });

  it('shows hostile names as text', () => {
    const hostile = runOf([
      ...reports(2),
      { kind: 'facts', rank: 0, facts: { '<script>alert(1)</script>': `"'&` } },
      { ...timeline(0, 2), events: [entry('<img onerror="x">', 'compute', 1)] },
      { ...timeline(1, 2), events: [] },
    ]);
    const page = htmlReport(hostile);
    expect(page).not.toContain('<script>alert');
    expect(page).not.toContain('<img');
    expect(page).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
  });

  it('of a single step, and of a diverged loss, is drawn all the same', () => {
    expect(htmlReport(runOf(reports(1)))).toContain('<circle');
    const diverged = runOf(
      [1, 2, 3].map((step) => stepReport(0, step, { loss: NaN })),
      1,
    );
    expect(htmlReport(diverged)).not.toMatch(/[ML]\S* ?NaN/);
  });

  it('leaves out charts that have no data', () => {
    const bare = runOf(
      [stepReport(0, 1, { loss: undefined, tokens: 0, memoryBytes: undefined })],
      1,
    );
    const page = htmlReport(bare);
    expect(page).not.toMatch(/<h2>(Loss|Throughput|Memory|What|Learning rate|Timeline)/);
    expect(page).toContain('<h2>Step time</h2>');
  });

  it('stays small for a long run', () => {
    const long = Array.from({ length: 20_000 }, (_, index) => stepReport(0, index + 1));
    expect(htmlReport(runOf(long, 1)).length).toBeLessThan(600_000);
  });
});

describe('the step of the timeline', () => {
  it('is the recorded one closest to the usual duration that every rank has', () => {
    const recorded = [
      timeline(1, 2, 130),
      timeline(0, 1, 2000),
      timeline(1, 1, 2000),
      timeline(0, 2, 120),
      timeline(0, 4, 125),
    ];
    const picked = representativeStep(recorded, 2, 125);
    expect(picked.map(({ rank, step }) => [rank, step])).toEqual([
      [0, 2],
      [1, 2],
    ]);
    expect(representativeStep([timeline(0, 1)], 2, 100)).toEqual([]);
  });
});

describe('the trace', () => {
  it('is in the Chrome Trace Event format, in microseconds, with a thread per rank', () => {
    expect(JSON.parse(chromeTrace([timeline(0, 4), timeline(1, 4)]))).toMatchObject({
      traceEvents: [
        { name: 'process_name', ph: 'M' },
        { name: 'thread_name', ph: 'M', tid: 0, args: { name: 'rank 0' } },
        { name: 'thread_name', ph: 'M', tid: 1, args: { name: 'rank 1' } },
        { name: 'process_name', ph: 'M', pid: 2, args: { name: 'messages' } },
        { name: 'thread_name', ph: 'M', pid: 2, tid: 0, args: { name: 'rank 0' } },
        { name: 'thread_name', ph: 'M', pid: 2, tid: 1, args: { name: 'rank 1' } },
        { name: 'step 4', ph: 'X', tid: 0, ts: 0, dur: 100_000 },
        { name: 'forward', ph: 'X', cat: 'compute', tid: 0, ts: 5000, dur: 10_000 },
        { name: 'allReduce', pid: 2, cat: 'collective', args: { bytes: 4096 } },
        { name: 'step 4', tid: 1 },
        { name: 'forward', tid: 1 },
        { name: 'allReduce', tid: 1 },
      ],
    });
  });

  it('has no events of a thread that overlap in part, which Perfetto would drop', () => {
    const event = (startMs: number, endMs: number, category: TimelineEntry['category']) => {
      return { ...entry('work', category, startMs), durationMs: endMs - startMs };
    };
    // Both programs end at half a microsecond, where the next one begins.
    const events = [
      event(0, 10.0005, 'compute'),
      event(10.0005, 20.0015, 'compute'),
      event(20.0015, 30, 'compute'),
      event(5, 15, 'collective'),
      event(6, 25, 'collective'),
      event(21, 22, 'collective'),
    ] as const;
    const { traceEvents } = traceSchema.parse(
      JSON.parse(chromeTrace([{ ...timeline(0, 1), startMs: 0, endMs: 100, events }])),
    );
    const spans = traceEvents.filter(({ dur }) => dur !== undefined);
    expect(spans).toHaveLength(7);
    const inPart = spans.flatMap((a) =>
      spans.filter((b) => {
        const [start, end] = [b.ts ?? 0, (b.ts ?? 0) + (b.dur ?? 0)];
        const [from, to] = [a.ts ?? 0, (a.ts ?? 0) + (a.dur ?? 0)];
        return a.pid === b.pid && a.tid === b.tid && from < start && start < to && to < end;
      }),
    );
    expect(inPart).toEqual([]);
    expect(spans.filter(({ cat }) => cat === 'compute').map(({ pid }) => pid)).toEqual([0, 0, 0]);
    expect(new Set(spans.map(({ tid }) => tid))).toEqual(new Set([0]));
  });

  it('says of a message how much it sent to whom, and of kernels what they did in a step', () => {
    const message = { ...entry('allReduce', 'collective', 20), axis: 'dp', ranks: 2 };
    const recorded = { ...timeline(0, 4), events: [message] };
    const { traceEvents } = traceSchema.parse(
      JSON.parse(chromeTrace([recorded], [profileOf({ rank: 1 })])),
    );
    expect(traceEvents.find(({ cat }) => cat === 'collective')).toMatchObject({
      args: { bytes: 4096, axis: 'dp', ranks: 2 },
    });
    const kernels = traceEvents.filter(({ cat }) => cat === 'kernel');
    expect(kernels.map(({ name, tid, ts, dur }) => [name, tid, ts, dur])).toEqual([
      ['matmul', 1, 0, 7500],
      ['matmul', 1, 7500, 12_500],
      ['gelu', 1, 20_000, 5000],
      ['add', 1, 25_000, 10_000],
    ]);
    expect(kernels[0]?.args).toMatchObject({ phase: 'forward', flops: 5e8, bytes: 5e5, calls: 1 });
  });
});

describe('an axis', () => {
  it('has generation ticks within its range', () => {
    expect(linearScale([0, 10], [0, 100], 5).ticks).toEqual([0, 2, 4, 6, 8, 10]);
    expect(linearScale([1.62, 5.53], [0, 100], 5).ticks).toEqual([2, 3, 4, 5]);
    expect(linearScale([0, 3e-4], [0, 100], 3).ticks).toEqual([0, 1e-4, 2e-4, 3e-4]);
  });

  it('maps its range to pixels, also a range of one value', () => {
    const scale = linearScale([10, 20], [100, 0], 4);
    expect([10, 15, 20].map(scale)).toEqual([100, 50, 0]);
    expect(linearScale([3, 3], [0, 10], 4)(3)).toBe(0);
  });

  it('ignores what is no number', () => {
    expect(extent([NaN, 1, Infinity, 3], 0)).toEqual([1, 3]);
    expect(extent([NaN], 0.1)).toEqual([0, 1]);
  });

  it('has short labels', () => {
    expect([0, 2.5, 15_000, 3e-4, 2e6].map((value) => formatTick(value, ''))).toEqual([
      '0',
      '2.5',
      '15k',
      '3e-4',
      '2M',
    ]);
    expect(formatTick(200, 'ms')).toBe('200 ms');
  });
});
