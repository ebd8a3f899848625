import { describe, expect, it } from 'vitest';
import { adviceOn, notesOn } from '../src/profile/advice.ts';
import { profilePage } from '../src/profile/profile-page.ts';
import { profileLines } from '../src/profile/profile-lines.ts';
import { moduleTree, modulesOf, summarizeProfile } from '../src/profile/summarize.ts';
import type { ProfileRow, RankProfile } from '../src/run-state/rank-profile.ts';

const nothing = { flops: 0, bytes: 0, peakMs: 0, memoryMs: 0, roofMs: 0, count: 1 };

function row(module: string, op: string, ms: number, more: Partial<ProfileRow> = {}): ProfileRow {
  return { ...nothing, module, op, phase: 'forward', ms, ...more };
}

/** A profile of one step of 100 ms. What `times` leave is time in kernels, half of it in products. */
function profileOf(times: Partial<RankProfile> = {}, rows?: readonly ProfileRow[]): RankProfile {
  const { waitMs = 0, dataMs = 0, graphMs = 0, hostMs = 0, betweenMs = 0, compileMs = 0 } = times;
  const stepMs = times.stepMs ?? 100;
  const computeMs = stepMs - waitMs - dataMs - graphMs - hostMs - betweenMs - compileMs;
  return {
    kind: 'profile',
    rank: 0,
    cycle: 0,
    from: 10,
    to: 10,
    steps: 1,
    stepMs,
    computeMs,
    productsMs: computeMs / 2,
    betweenMs,
    waitMs,
    dataMs,
    graphMs,
    compileMs,
    hostMs,
    parts: 20,
    tinyParts: 5,
    tinyMs: 0.02,
    roofline: { f32: 100e9, half: 200e9, bytesPerSecond: 10e9 },
    rows: rows ?? [
      row('GPT.head', 'matmul', computeMs / 2, {
        flops: 2e9,
        bytes: 1e7,
        peakMs: 20,
        memoryMs: 1,
        roofMs: 20,
      }),
      row('GPT.norm', 'layerNorm', computeMs / 2, { bytes: 1e8, memoryMs: 10, roofMs: 10 }),
    ],
    waits: [],
    ...times,
  };
}

const limitsOf = (...profiles: readonly RankProfile[]): readonly (readonly [string, number])[] =>
  adviceOn(summarizeProfile(profiles)).map(({ limit, share }) => [limit, Math.round(100 * share)]);

describe('what to do first', () => {
  it('is the largest part of the step, and the parts add up to it', () => {
    expect(limitsOf(profileOf({ dataMs: 60 }))).toEqual([
      ['data loading', 60],
      ['compute', 20],
      ['memory', 20],
    ]);
    expect(
      limitsOf(profileOf({ hostMs: 30, graphMs: 8, compileMs: 12, betweenMs: 10, waitMs: 4 })),
    ).toEqual([
      ['host', 30],
      ['compute', 18],
      ['memory', 18],
      ['compiling', 12],
      ['small kernels', 10],
      ['graph', 8],
      ['communication', 4],
    ]);
  });

  it('tells recomputation and the update from the passes of the model', () => {
    const rows = [
      row('GPT', 'matmul', 40, { flops: 4e9, peakMs: 40, memoryMs: 1, roofMs: 40 }),
      row('GPT', 'matmul', 35, { flops: 4e9, peakMs: 40, memoryMs: 1, phase: 'recomputation' }),
      row('', 'mul', 25, { bytes: 1e8, memoryMs: 10, phase: 'optimizer' }),
    ];
    expect(limitsOf(profileOf({}, rows))).toEqual([
      ['compute', 40],
      ['recomputation', 35],
      ['optimizer', 25],
    ]);
  });

  it('says how near products are to the peak, and advises larger ones if they are far from it', () => {
    const of = (ms: number): string | undefined =>
      adviceOn(
        summarizeProfile([
          profileOf({}, [
            row('GPT', 'matmul', ms, { flops: 4e9, peakMs: 40, memoryMs: 1, roofMs: 40 }),
          ]),
        ]),
      )
        .map(({ found, todo }) => `${found}: ${todo}`)
        .find((text) => text.startsWith('matrix products'));
    expect(of(50)).toMatch(/at 80 % of the peak.*bf16/);
    expect(of(100)).toMatch(/at 40 % of the peak.*larger matrices/);
  });

  it('names the rank that the others wait for, and what it does meanwhile', () => {
    const fast = (rank: number): RankProfile => profileOf({ rank, waitMs: 40 });
    const slow = profileOf({ rank: 2, hostMs: 45, waitMs: 2 });
    const [first] = adviceOn(summarizeProfile([fast(0), fast(1), slow, fast(3)]));
    expect(first).toMatchObject({ limit: 'waiting for a rank' });
    expect(first?.found).toBe(
      'rank 2 takes 38.0 ms longer in each step than the others, most of it for the script; ranks 0, 1, 3 wait for it',
    );
    expect(first?.todo).toMatch(/logging, evaluation and loading/);
  });

  it('names the message instead, if all ranks wait alike', () => {
    const waits = [
      { op: 'allReduce', module: '', phase: 'backward' as const, count: 4, ms: 30, bytes: 2 ** 20 },
    ];
    const both = [0, 1].map((rank) => profileOf({ rank, waitMs: 30, waits }));
    const [first] = adviceOn(summarizeProfile(both)).filter(({ limit }) =>
      limit.startsWith('comm'),
    );
    expect(first?.found).toMatch(/most for allReduce \(1\.00 MiB a step, 30 % of it\)$/);
    expect(first?.todo).toMatch(/noSync/);
  });
});

describe('a busy host', () => {
  it('is told of, because kernels that wait for cores look slow', () => {
    const load = (threads: number): RankProfile => profileOf({ load: { threads, cores: 4 } });
    const note = 'The host of rank 0 was busy: 9.5 threads wanted to run on 4 cores';
    expect(notesOn(summarizeProfile([load(9.5)])).join()).toContain(note);
    expect(profilePage([load(9.5)], 'train.ts')).toContain(note);
    expect(profileLines([load(9.5)], { columns: 200 }).join('\n')).toContain(note);
    expect(notesOn(summarizeProfile([load(5)]))).toEqual([]);
    expect(notesOn(summarizeProfile([profileOf()]))).toEqual([]);
  });
});

describe('a device that does not divide its programs', () => {
  it('is told of with what its times mean', () => {
    const of = (timing: 'device' | 'encoding'): string =>
      notesOn(summarizeProfile([profileOf({ timing })])).join();
    expect(of('device')).toMatch(/share the time by an estimate/);
    expect(of('encoding')).toMatch(/times of kernels are those of handing programs over/);
  });
});

describe('the summary of a profile', () => {
  it('is of one step and one rank: means over both', () => {
    const two = profileOf({ rank: 1, steps: 2, to: 11, stepMs: 300 });
    const { stepMs, rows, mfu, times } = summarizeProfile([two, profileOf()]);
    expect(stepMs).toBeCloseTo(400 / 3, 9);
    expect(rows.map(({ op, ms }) => [op, ms])).toEqual([
      ['matmul', expect.closeTo(200 / 3, 9)],
      ['layerNorm', expect.closeTo(200 / 3, 9)],
    ]);
    expect(times.computeMs).toBeCloseTo(400 / 3, 9);
    // 40 ms at the peak, in 400 ms.
    expect(mfu).toBeCloseTo(0.1, 9);
  });

  it('has a tree of modules, of which each includes those below it', () => {
    const rows = [
      row('GPT.blocks.1.up', 'matmul', 3),
      row('GPT.blocks.0.up', 'matmul', 2),
      row('GPT.blocks.0', 'add', 1),
      row('', 'sum', 0.5),
    ];
    const nodes = modulesOf(moduleTree(rows)).map(({ path, ms }) => [path, ms]);
    expect(nodes).toEqual([
      ['GPT', 6],
      ['GPT.blocks', 6],
      ['GPT.blocks.0', 3],
      ['GPT.blocks.1', 3],
      ['GPT.blocks.1.up', 3],
      ['GPT.blocks.0.up', 2],
      ['(outside of modules)', 0.5],
    ]);
  });
});

describe('what shows a profile', () => {
  it('is lines that fit a terminal', () => {
    const lines = profileLines([profileOf({ dataMs: 20 })], { columns: 100 });
    expect(lines[0]).toBe('Profile of step 10 on rank 0: 100 ms a step');
    expect(lines[1]).toMatch(/rank 0: kernels 80 % · between kernels 0\.0 % .*data 20 %/);
    expect(lines[2]).toMatch(/products: 40 % of the time, 20\.0 GFLOP\/s · MFU 20 % · peak: 100/);
    for (const line of lines.slice(3)) expect(line.length).toBeLessThanOrEqual(118);
  });

  it('is a page without other files, in which names of modules are only text', () => {
    const rows = [row('<img src=x onerror=alert(1)>.up', '"matmul"', 100, { flops: 1 })];
    const page = profilePage([profileOf({}, rows)], 'train <b>.ts');
    expect(page).not.toMatch(/<img|train <b>/);
    expect(page).toContain('&lt;img src=x onerror=alert(1)&gt;');
    expect(page).not.toMatch(/(?:src|href)="?https?:/);
  });

  it('has no roofline if the peak of the device is not known', () => {
    const rows = [row('GPT', 'matmul', 100, { flops: 2e9, bytes: 1e6 })];
    const unknown = profileOf({ roofline: {} }, rows);
    expect(profilePage([unknown], 'train.ts')).not.toContain('Roofline');
    expect(profileLines([unknown])[2]).toMatch(/peak of the device unknown$/);
    expect(profilePage([profileOf()], 'train.ts')).toContain('Roofline of one core');
  });
});
