import { cpu } from '@shardwise/backend-cpu';
import { manualSeed, nn, optim, randn, setRank, type Tensor } from '@shardwise/core';
import {
  type Backend,
  constructions,
  count,
  type Executable,
  type Program,
  rankState,
} from '@shardwise/core/extend';
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { profilePlan, type ProfileOptions } from '../src/profile/profile-options.ts';
import { profile } from '../src/profile/profile.ts';
import { schedule } from '../src/profile/schedule.ts';
import { StepProfiler } from '../src/profile/step-profiler.ts';
import { parseRankMessage, type RankMessage } from '../src/run-state/run-message.ts';
import type { RankProfile, StepProfile } from '../src/run-state/rank-profile.ts';

const roofline = { f32: 100e9, half: 200e9, bytesPerSecond: 10e9 };

class Block extends nn.Module {
  up = new nn.Linear(16, 32, { bias: false });
  down = new nn.Linear(32, 16, { bias: false });
  forward(x: Tensor): Tensor {
    return x.add(this.down.forward(this.up.forward(x).gelu()));
  }
}

class Model extends nn.Module {
  blocks = new nn.ModuleList([new Block(), new Block()]);
  forward(x: Tensor): Tensor {
    let output = x;
    for (const block of this.blocks) output = block.forward(output);
    return output;
  }
}

/** Trains for some steps, which count from `first`, with a profiler. Returns what was sent, and the figures of steps. */
async function profiled(
  options: ProfileOptions,
  steps: number,
  { first = 1, recomputes = false } = {},
): Promise<{
  readonly profiles: readonly RankProfile[];
  readonly messages: readonly RankMessage[];
  readonly figures: readonly Readonly<Record<string, number>>[];
}> {
  const plan = profilePlan(options, {});
  if (plan === null) throw new RangeError('nothing to profile');
  const messages: RankMessage[] = [];
  const profiler = new StepProfiler({
    rank: 0,
    plan,
    roofline,
    send: (message) => messages.push(message),
  });
  manualSeed(0);
  const model = new Model();
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  const figures: Readonly<Record<string, number>>[] = [];
  try {
    for (let step = first; step < first + steps; step++) {
      const x = randn([8, 16]);
      const output = recomputes ? nn.checkpoint(() => model.forward(x)) : model.forward(x);
      output.square().mean().backward();
      await optimizer.step();
      optimizer.zeroGrad();
      figures.push(profiler.step(step));
    }
  } finally {
    await profiler.close();
  }
  const profiles = messages.filter((message) => message.kind === 'profile');
  return { profiles, messages, figures };
}

/** The multiply-adds of one linear layer, times two. */
const products = 2 * 8 * 16 * 32;

beforeEach(async () => setRank({ device: await cpu() }));

describe('the profile of steps', () => {
  it('has the products of each module and phase, and their operations by closed form', async () => {
    const { profiles } = await profiled({ steps: [3, 4] }, 5);
    const [profile] = profiles;
    expect(profiles).toHaveLength(1);
    expect(profile).toMatchObject({ from: 3, to: 4, steps: 2, rank: 0, cycle: 0 });
    const flopsOf = (phase: string, module?: string): number | undefined =>
      profile?.rows
        .filter((row) => row.phase === phase && (module === undefined || row.module === module))
        .reduce((sum, { flops }) => sum + flops, 0);
    for (const block of [0, 1]) {
      for (const layer of ['up', 'down']) {
        expect(flopsOf('forward', `Model.blocks.${block}.${layer}`)).toBe(2 * products);
      }
    }
    expect(flopsOf('forward')).toBe(2 * 4 * products);
    // The first layer needs no gradient of its input.
    expect(flopsOf('backward')).toBe(2 * 7 * products);
    expect(flopsOf('recomputation')).toBe(0);
    expect(flopsOf('optimizer')).toBe(0);
  });

  it('counts what a backward pass computes again as recomputation', async () => {
    const { profiles } = await profiled({ steps: [3, 3] }, 4, { recomputes: true });
    const again = profiles[0]?.rows.filter(({ phase }) => phase === 'recomputation') ?? [];
    const flops = again.reduce((sum, row) => sum + row.flops, 0);
    expect(flops).toBeGreaterThan(0);
    expect(flops % products).toBe(0);
    expect(again.every(({ module }) => module.startsWith('Model'))).toBe(true);
  });

  it('divides the time of the steps, and no row is faster than the roof', async () => {
    const { profiles } = await profiled({ steps: [2, 5] }, 5);
    const [profile] = profiles;
    if (profile === undefined) throw new RangeError('no profile');
    const { rows, stepMs } = profile;
    const known =
      profile.computeMs +
      profile.betweenMs +
      profile.waitMs +
      profile.dataMs +
      profile.graphMs +
      profile.compileMs +
      profile.hostMs;
    expect(known).toBeCloseTo(stepMs, 6);
    expect(rows.reduce((sum, { ms }) => sum + ms, 0)).toBeCloseTo(profile.computeMs, 6);
    expect(profile.productsMs).toBeLessThanOrEqual(profile.computeMs);
    for (const { roofMs, ms } of rows) expect(roofMs).toBeLessThanOrEqual(ms + 1e-9);
    expect(profile.waits).toEqual([]);
  });

  it('is a message that other hosts take, and prints as tables', async () => {
    let seen = '';
    const onTraceReady = (profile: StepProfile): void => {
      seen = String(profile);
    };
    const { profiles } = await profiled({ steps: [2, 2], onTraceReady }, 3);
    const [profile] = profiles;
    expect(parseRankMessage(JSON.parse(JSON.stringify(profile)))).toEqual(profile);
    expect(parseRankMessage({ ...profile, steps: 0 })).toBeUndefined();
    expect(parseRankMessage({ ...profile, rows: [{ op: 'matmul' }] })).toBeUndefined();
    expect(seen).toMatch(/^Profile of step 2 on rank 0: /);
    expect(seen).toMatch(/matmul +backward +7/);
    expect(seen).toMatch(/Model\.blocks\.1\.up/);
  });

  it('says which share of each recorded step products took, and for the report that of all', async () => {
    const { figures, messages, profiles } = await profiled({ steps: [2, 3] }, 4);
    expect(figures.map((each) => Object.keys(each))).toEqual([
      [],
      ['utilization/products'],
      ['utilization/products'],
      [],
    ]);
    for (const { 'utilization/products': share = 0.5 } of figures) {
      expect(share).toBeGreaterThan(0);
      expect(share).toBeLessThan(1);
    }
    const [profile] = profiles;
    const share = (profile?.productsMs ?? 0) / (profile?.stepMs ?? 1);
    const text = `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} % of steps 2 to 3, by their profile`;
    expect(messages.at(-1)).toMatchObject({ kind: 'facts', facts: { 'time in products': text } });
  });
});

it('counts waits outside of plans, such as those of the stages of a pipeline for each other', async () => {
  const seen: StepProfile[] = [];
  const recording = profile({ steps: [1, 1], onTraceReady: (each) => seen.push(each) });
  recording.step();
  // As if the rank had waited for an hour.
  count('communicationMs', 3_600_000);
  recording.step();
  await recording.stop();
  expect(seen[0]?.waitMs).toBeCloseTo(3_600_000, 6);
  expect(seen[0]?.waits).toEqual([
    expect.objectContaining({ op: 'messages of stages', ms: expect.closeTo(3_600_000, 6) }),
  ]);
  expect(seen[0]?.hostMs).toBe(0);
});

describe('the steps of a profile', () => {
  const rangesOf = (profiles: readonly RankProfile[]): readonly (readonly number[])[] =>
    profiles.map(({ from, to, steps }) => [from, to, steps]);

  it('may begin with the first step, whether the script counts from 0 or from 1', async () => {
    expect(rangesOf((await profiled({ steps: [0, 1] }, 3, { first: 0 })).profiles)).toEqual([
      [0, 1, 2],
    ]);
    expect(rangesOf((await profiled({ steps: [1, 2] }, 3)).profiles)).toEqual([[1, 2, 2]]);
    expect(rangesOf((await profiled({ steps: [0, 1] }, 3)).profiles)).toEqual([[1, 1, 1]]);
  });

  it('are by their numbers, also in a run that continues', async () => {
    expect(rangesOf((await profiled({ steps: [41, 42] }, 4, { first: 40 })).profiles)).toEqual([
      [41, 42, 2],
    ]);
  });

  it('are those of a schedule, cycle after cycle', async () => {
    const options = { schedule: schedule({ wait: 1, warmup: 1, active: 2, repeat: 2 }) };
    const { profiles } = await profiled(options, 12);
    expect(rangesOf(profiles)).toEqual([
      [3, 4, 2],
      [7, 8, 2],
    ]);
    expect(profiles.map(({ cycle }) => cycle)).toEqual([0, 1]);
    // Each cycle counts its own steps alone.
    const flops = profiles.map(({ rows }) => rows.reduce((sum, row) => sum + row.flops, 0));
    expect(flops).toEqual([2 * 11 * products, 2 * 11 * products]);
  });

  it('are as many as there are, if the run ends before the last one', async () => {
    expect(rangesOf((await profiled({ steps: [3, 9] }, 4)).profiles)).toEqual([[3, 4, 2]]);
  });

  it('that never come are told of', async () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => {});
    onTestFinished(() => warn.mockRestore());
    const { profiles } = await profiled({ steps: [10, 12] }, 2);
    expect(profiles).toEqual([]);
    expect(warn.mock.calls).toEqual([
      [
        'shardwise: nothing was profiled. It was to be steps 10 to 12, but the script has reported steps 1 to 2',
      ],
    ]);
  });

  it('are the only ones in which something listens: between them, only new modules are noted', async () => {
    const plan = profilePlan({ steps: [5, 5] }, {});
    if (plan === null) throw new RangeError('nothing to profile');
    const model = new Model();
    const listeners = (): readonly boolean[] => [
      rankState.timelineListeners.size > 0,
      rankState.observer !== null,
      Object.hasOwn(model.blocks, 'forward') || Object.hasOwn(later, 'forward'),
    ];
    const profiler = new StepProfiler({ rank: 1, plan, roofline, send: () => {} });
    const later = new Model();
    const seen = [1, 2, 3, 4, 5, 6].map((step) => {
      profiler.step(step);
      return listeners();
    });
    const [off, on] = [
      [false, false, false],
      [true, true, true],
    ];
    // Step 4 is the warm-up.
    expect(seen).toEqual([off, off, on, on, off, off]);
    await profiler.close();
    expect(listeners()).toEqual(off);
    expect(Object.hasOwn(constructions, 'begin')).toBe(false);
  });
});

/** A device that says that each program took 2 ms, but only when a value is read. */
function lateDevice(device: Backend): Backend {
  let late: (() => void)[] = [];
  return new Proxy(device, {
    get(target, key) {
      if (key === 'timing') return 'device';
      if (key === 'compileSized' || key === 'map')
        return key === 'map' ? () => undefined : undefined;
      if (key === 'read') {
        return (...given: Parameters<Backend['read']>) => {
          for (const tell of late) tell();
          late = [];
          return target.read(...given);
        };
      }
      if (key === 'compile') {
        return async (program: Program): Promise<Executable> => {
          const executable = await target.compile(program);
          return {
            run: (inputs, outputs, options) => {
              late.push(() => options?.onComputed?.(2));
              return executable.run(inputs, outputs);
            },
            dispose: () => executable.dispose(),
          };
        };
      }
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

it('waits for the times of a device that says them later, and gives them to the right modules', async () => {
  setRank({ device: lateDevice(await cpu()) });
  const { profiles, figures } = await profiled({ steps: [2, 3] }, 4);
  const [profile] = profiles;
  expect(profile).toMatchObject({ timing: 'device', steps: 2 });
  // Each step is one program.
  expect(profile?.computeMs).toBeCloseTo(4, 9);
  const flopsOf = (module: string): number | undefined =>
    profile?.rows
      .filter((row) => row.phase === 'forward' && row.module === module)
      .reduce((sum, { flops }) => sum + flops, 0);
  expect(flopsOf('Model.blocks.0.up')).toBe(2 * products);
  expect(flopsOf('Model.blocks.1.down')).toBe(2 * products);
  expect(figures).toEqual([{}, {}, {}, {}]);
});

describe('profiler.profile', () => {
  it('profiles a loop of its own, whose steps count from 0', async () => {
    const seen: StepProfile[] = [];
    const recording = profile({
      schedule: schedule({ wait: 1, warmup: 1, active: 2, repeat: 1 }),
      onTraceReady: (each) => seen.push(each),
    });
    const model = new Model();
    for (let step = 0; step < 6; step++) {
      await model
        .forward(randn([8, 16]))
        .sum()
        .item();
      recording.step();
    }
    await recording.stop();
    expect(seen.map(({ from, to, steps, rank }) => [from, to, steps, rank])).toEqual([
      [2, 3, 2, 0],
    ]);
    const flops = seen[0]?.rows.reduce((sum, row) => sum + row.flops, 0);
    expect(flops).toBe(2 * 4 * products);
    expect(seen[0]?.roofline).toEqual({});
  });

  it('refuses a second profiler, which would take the times of the first', async () => {
    const recording = profile({ steps: [5, 6] });
    expect(() => profile({ steps: [0, 1] })).toThrow(/another one runs on this rank/);
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => {});
    onTestFinished(() => warn.mockRestore());
    await recording.stop();
    expect(warn.mock.calls.flat().join()).toContain('step() of profiler.profile()');
    await profile({ steps: [5, 6] }).stop();
  });

  it('refuses what asks for no steps', () => {
    expect(() => profile({})).toThrow(/profiler\.profile.*neither steps nor a schedule/);
    expect(Object.hasOwn(constructions, 'begin')).toBe(false);
  });
});

describe('the options of a profile', () => {
  it('are steps or a schedule, and nothing is profiled without them', () => {
    expect(profilePlan(undefined, {})).toBeNull();
    expect(() => profilePlan({}, {})).toThrow(/neither steps nor a schedule/);
    const actionOf = schedule({ wait: 0, warmup: 0, active: 1 });
    expect(() => profilePlan({ steps: [1, 2], schedule: actionOf }, {})).toThrow(
      /steps and a schedule/,
    );
    expect(() => profilePlan({ steps: [3, 2] }, {})).toThrow(/\[from, to\]/);
    expect(() => profilePlan({ steps: [1, 2], peak: { f32: 0 } }, {})).toThrow(/f32/);
    // @ts-expect-error no such option
    expect(() => profilePlan({ steps: [1, 2], warmup: 3 }, {})).toThrow(/warmup/);
  });

  it('give way to the steps that the command asks for', () => {
    const plan = profilePlan({ steps: [1, 2] }, { SHARDWISE_PROFILE: '10-12' });
    expect(plan?.asked).toBe('steps 10 to 12');
    expect(() => profilePlan(undefined, { SHARDWISE_PROFILE: '12-10' })).toThrow(
      /no range of steps/,
    );
  });
});
