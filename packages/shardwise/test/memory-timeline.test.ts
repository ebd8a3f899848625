import { cpu } from '@shardwise/backend-cpu';
import { ConfigError, manualSeed, nn, ones, optim, setRank, type Tensor } from '@shardwise/core';
import { type Strategy, timePlans } from '@shardwise/core/extend';
import { ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { dist, profiler } from 'shardwise';
import { beforeAll, describe, expect, it } from 'vitest';
import { memoryCategories } from '../src/memory/memory-profile.ts';

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);

/** The bytes of a category at the peak. */
const atPeak = ({ peak }: profiler.MemoryProfile, category: profiler.MemoryCategory): number =>
  sum(peak.blocks.filter((each) => each.category === category).map(({ bytes }) => bytes));

function layers(): nn.Sequential {
  return new nn.Sequential(
    new nn.Linear(32, 64),
    new nn.GELU(),
    new nn.Linear(64, 64),
    new nn.GELU(),
    new nn.Linear(64, 16),
  );
}

/** A new device, and a step of training on it. */
async function training(model: nn.Module & { forward: nn.Sequential['forward'] } = layers()) {
  const device = await cpu();
  setRank({ device });
  manualSeed(1);
  const optimizer = new optim.AdamW(model.parameters());
  const step = async (): Promise<void> => {
    optimizer.zeroGrad();
    model
      .forward(ones([64, 32]))
      .square()
      .mean()
      .backward();
    await optimizer.step();
  };
  return { device, model, optimizer, step };
}

const modelBytes = 4 * (32 * 64 + 64 + 64 * 64 + 64 + 64 * 16 + 16);
const activationBytes = 4 * 64 * 64;

describe('the timeline of memory of a rank', () => {
  it('has a peak of exactly the bytes that the allocator says, all of which are named', async () => {
    const { device, step, ...trained } = await training();
    const timeline = profiler.memoryTimeline(trained);
    await step();
    await step();
    const profile = await timeline.stop();
    expect(profile.peak.bytes).toBe(device.usage().peakBytes);
    expect(sum(profile.peak.blocks.map(({ bytes }) => bytes))).toBe(profile.peak.bytes);
    expect(atPeak(profile, 'parameters')).toBe(modelBytes);
    expect(atPeak(profile, 'gradients')).toBe(modelBytes);
    expect(atPeak(profile, 'optimizer states')).toBe(2 * modelBytes);
    // What is left are the rests of two lines of the cache, each of which has one number.
    expect(atPeak(profile, 'reserved')).toBeLessThan(2 * 64);
  });

  it('says at every time what all bytes are, none of them twice', async () => {
    const { device, step, ...trained } = await training();
    const timeline = profiler.memoryTimeline(trained);
    for (let count = 0; count < 3; count++) await step();
    const { points, peak } = await timeline.stop();
    for (const { bytes } of points) {
      expect(Math.min(...bytes)).toBeGreaterThanOrEqual(0);
      expect(sum(bytes)).toBeLessThanOrEqual(peak.bytes);
    }
    expect(sum(points.at(-1)?.bytes ?? [])).toBe(device.usage().bytesInUse);
    expect(points.map(({ ms }) => ms)).toEqual(
      points.map(({ ms }) => ms).toSorted((a, b) => a - b),
    );
  });

  it('is that of each rank alone, if several are in one thread', async () => {
    const found = await onRanks(
      2,
      async ({ rank }) => {
        manualSeed(1);
        const model = layers();
        const optimizer = new optim.AdamW(model.parameters());
        const timeline = profiler.memoryTimeline({ model, optimizer });
        for (let step = 0; step < 2; step++) {
          optimizer.zeroGrad();
          const rows = ones([64 * (rank + 1), 32]);
          model.forward(rows).square().mean().backward();
          await optimizer.step();
        }
        const { points, peak } = await timeline.stop();
        const { peakBytes } = dist.memory({ model, optimizer });
        return { least: Math.min(...points.flatMap(({ bytes }) => bytes)), peak, peakBytes };
      },
      { createDevice: () => cpu() },
    );
    for (const { least, peak, peakBytes } of found) {
      expect(least).toBeGreaterThanOrEqual(0);
      expect(peak.bytes).toBe(peakBytes);
    }
  });

  it('names the module of each activation, which is kept until the backward pass has come to it', async () => {
    const { step, device: _, ...trained } = await training();
    await step();
    const timeline = profiler.memoryTimeline(trained);
    await step();
    const { blocks } = await timeline.stop();
    const activations = blocks.filter(
      ({ category, bytes }) => category === 'activations' && bytes === activationBytes,
    );
    const byModule = new Map(activations.map((each) => [each.module, each]));
    expect([...byModule.keys()].toSorted()).toEqual(['0', '1', '2', '3']);
    const [first, last] = [byModule.get('0'), byModule.get('2')];
    expect(first?.operation).toBe('add [64, 64] f32, forward');
    expect(first?.fromMs).toBeLessThan(last?.fromMs ?? Number.NaN);
    expect(first?.toMs).toBeGreaterThan(last?.toMs ?? Number.NaN);
  });

  it('knows the gradients of the step before, until they are freed', async () => {
    const { step, device: _, ...trained } = await training();
    await step();
    const timeline = profiler.memoryTimeline(trained);
    trained.optimizer.zeroGrad();
    await step();
    const profile = await timeline.stop();
    const index = memoryCategories.indexOf('gradients');
    const over = profile.points.map(({ bytes }) => bytes[index] ?? Number.NaN);
    expect(over[0]).toBe(modelBytes);
    expect(over.indexOf(0)).toBeGreaterThan(0);
    expect(Math.max(...over)).toBe(modelBytes);
    expect(atPeak(profile, 'gradients')).toBe(modelBytes);
  });

  it('changes no values, and leaves the device as it was', async () => {
    const values = async (watched: boolean): Promise<readonly (number | bigint)[]> => {
      const { device, step, ...trained } = await training();
      const timeline = watched ? profiler.memoryTimeline(trained) : null;
      await step();
      await step();
      await timeline?.stop();
      await timeline?.stop();
      expect(Object.keys(Object.getOwnPropertyDescriptors(device))).not.toContain('alloc');
      const [weight] = trained.model.parameters();
      return [...((await weight?.data()) ?? [])];
    };
    expect(await values(true)).toEqual(await values(false));
  });

  it('is the same beside a profiler of times', async () => {
    const { device, step, ...trained } = await training();
    let parts = 0;
    const end = timePlans({
      begin: () => {},
      computed: () => (parts += 1),
      between: () => {},
      waited: () => {},
    });
    const timeline = profiler.memoryTimeline(trained);
    await step();
    end();
    const profile = await timeline.stop();
    expect(parts).toBeGreaterThan(0);
    expect(profile.peak.bytes).toBe(device.usage().peakBytes);
    expect(atPeak(profile, 'activations')).toBeGreaterThanOrEqual(3 * activationBytes);
    expect(atPeak(profile, 'reserved')).toBeLessThan(2 * 64);
  });

  it('is refused without a model, with options that it does not know, and for a device that does not count', async () => {
    await training();
    expect(() => profiler.memoryTimeline(JSON.parse('{"model":{}}'))).toThrow(ConfigError);
    const unknown = { model: layers(), optimiser: null };
    expect(() => profiler.memoryTimeline(unknown)).toThrow(/optimiser/);
    setRank({ device: interpreter() });
    expect(() => profiler.memoryTimeline({ model: layers() })).toThrow(/does not count its memory/);
  });
});

describe('the timelines of two ranks', () => {
  const strategies: Readonly<Record<string, () => Strategy>> = {
    ddp,
    'zero 3': () => zero({ stage: 3 }),
    fsdp,
    'fsdp bf16': () => fsdp({ mixedPrecision: { parameterDtype: 'bf16' } }),
  };
  /** What each rank finds: the timelines of all ranks, and what its own device has counted. */
  interface Found {
    readonly profiles: readonly profiler.MemoryProfile[];
    readonly peakBytes: number;
  }
  const found = new Map<string, readonly Found[]>();

  beforeAll(async () => {
    for (const [name, strategy] of Object.entries(strategies)) {
      const ofRanks = await onRanks(
        2,
        async ({ group, device }) => {
          manualSeed(1);
          const model = layers();
          const parallel = await parallelize(model, strategy());
          const optimizer = new optim.AdamW(model.parameters());
          const timeline = profiler.memoryTimeline({ model: parallel, optimizer });
          for (let step = 0; step < 2; step++) {
            optimizer.zeroGrad();
            const output = parallel.forward(ones([64, 32]));
            output.square().mean().backward();
            await optimizer.step();
          }
          const profiles = await timeline.stopAll(group);
          return { profiles, peakBytes: device.usage?.().peakBytes ?? Number.NaN };
        },
        { createDevice: () => cpu() },
      );
      found.set(name, ofRanks);
    }
  });

  it.each(Object.keys(strategies))(
    'have the exact peaks of the allocators under %s, and every rank has all of them',
    (name) => {
      const ofRanks = found.get(name) ?? [];
      expect(ofRanks).toHaveLength(2);
      for (const [rank, { profiles, peakBytes }] of ofRanks.entries()) {
        const own = profiles[rank];
        expect(own?.peak.bytes).toBe(peakBytes);
        expect(sum(own?.peak.blocks.map(({ bytes }) => bytes) ?? [])).toBe(own?.peak.bytes);
        expect(Math.min(...(own?.points.flatMap(({ bytes }) => bytes) ?? [-1]))).toBe(0);
        expect(profiles.map((each) => each.rank)).toEqual([0, 1]);
        expect(profiles).toEqual(ofRanks[0]?.profiles);
      }
    },
  );

  it('have the parameters and states that the strategies leave on a rank', () => {
    // The last bias has 16 elements, which take a line of the cache also if a rank has half of them.
    const half = 4 * (32 * 32 + 32 + 64 * 32 + 32 + 32 * 16) + 64;
    for (const [name, parameters] of [
      ['ddp', modelBytes],
      ['zero 3', half],
      ['fsdp', half],
    ] as const) {
      const profile = found.get(name)?.[0]?.profiles[0];
      if (profile === undefined) throw new RangeError(`no profile of ${name}`);
      expect(atPeak(profile, 'parameters')).toBe(parameters);
      expect(atPeak(profile, 'optimizer states')).toBe(2 * parameters);
    }
  });

  it('name the modules whose gradients a strategy reduces', () => {
    const blocks = found.get('ddp')?.[0]?.profiles[0]?.peak.blocks ?? [];
    const reduced = blocks.filter(({ operation }) => operation.startsWith('allReduce'));
    expect(new Set(reduced.map(({ module }) => module))).toEqual(new Set(['0', '2', '4']));
    expect(new Set(reduced.map(({ category }) => category))).toEqual(new Set(['gradients']));
  });
});

describe('the plan of memory beside the timeline', () => {
  it('counts states exactly, and each activation from its operation to its last read', async () => {
    const { device: _, step, ...trained } = await training();
    const { model } = trained;
    const loss = (): Tensor =>
      model
        .forward(ones([64, 32]))
        .square()
        .mean();
    const planned = profiler.plannedMemory({ model, loss });
    const timeline = profiler.memoryTimeline(trained);
    await step();
    await step();
    const profile = await timeline.stop();
    const { categories, differences, words } = profiler.compareMemory(planned, profile);
    for (const { category, plannedBytes, measuredBytes } of categories) {
      if (category === 'parameters' || category === 'optimizer states') {
        expect(plannedBytes).toBe(measuredBytes);
      }
    }
    // Before and after each GELU, and what the last layer returns.
    const hidden = planned.blocks.filter(
      ({ module, category }) => module === '0' && category === 'activations',
    );
    expect(hidden.at(-1)).toMatchObject({ bytes: activationBytes });
    expect(hidden.at(-1)?.toOperation).toBeGreaterThan(planned.operations / 2);
    const gaps = differences.map(({ plannedBytes, measuredBytes }) =>
      Math.abs(plannedBytes - measuredBytes),
    );
    expect(gaps).toEqual(gaps.toSorted((a, b) => b - a));
    expect(words).toMatch(/^The .* take .* (than planned|that are not in the plan)/);
    expect(profiler.memoryPage(profile, planned)).toContain('the plan beside it');
  });

  it('counts the parts of states by the plan of a strategy', () => {
    setRank({ device: interpreter() });
    const model = layers();
    const loss = (): Tensor => model.forward(ones([64, 32])).mean();
    const spec = model
      .namedParameters()
      .map(([name, { shape, dtype, requiresGrad }]) => ({ name, shape, dtype, requiresGrad }));
    const plan = dist.fsdp().plan({ parameters: spec }, [{ name: 'dp', size: 2 }]);
    const { blocks } = profiler.plannedMemory({ model, loss, plan });
    const bytesOf = (kind: profiler.MemoryCategory): number =>
      sum(blocks.filter(({ category }) => category === kind).map(({ bytes }) => bytes));
    expect(bytesOf('parameters')).toBe(modelBytes / 2);
    expect(bytesOf('gradients')).toBe(modelBytes / 2);
    expect(bytesOf('optimizer states')).toBe(modelBytes);
  });
});

describe('the page of timelines', () => {
  it('stands alone, with a figure and a table for each rank that say the same in words', async () => {
    const { step, device: _, ...trained } = await training();
    const timeline = profiler.memoryTimeline(trained);
    await step();
    const profile = await timeline.stop();
    const page = profiler.memoryPage([profile, { ...profile, rank: 1 }]);
    expect(page).not.toMatch(/(src|href)=|https?:|@import|url\((?!#)/);
    expect(page).toContain('<html lang="en">');
    expect(page).toContain('2 ranks');
    for (const rank of [0, 1]) {
      expect(page).toContain(`role="img" aria-label="Memory of rank ${rank} over time"`);
    }
    const bytes = profile.peak.bytes.toLocaleString('en-US');
    expect(page).toContain(`${profile.peak.blocks.length} blocks, ${bytes} bytes together`);
    expect(page).toContain('<th scope="col">Module</th>');
    expect(page).toContain('prefers-color-scheme:dark');
    expect(profiler.memoryPage(profile)).toContain('1 rank ·');
  });

  it('shows names of modules as text', async () => {
    class Named extends nn.Module {
      readonly parts = new nn.ModuleDict({ '<script>alert(1)</script>': layers() });
      forward(x: Parameters<nn.Sequential['forward']>[0]) {
        return this.parts.get('<script>alert(1)</script>')?.forward(x) ?? x;
      }
    }
    const { step, device: _, ...trained } = await training(new Named());
    const timeline = profiler.memoryTimeline(trained);
    await step();
    const page = profiler.memoryPage(await timeline.stop());
    expect(page).not.toContain('<script>alert');
    expect(page).toContain('&lt;script&gt;alert(1)');
  });

  it('is refused for what is no profile', () => {
    expect(() => profiler.memoryPage(JSON.parse('[{"rank":0}]'))).toThrow(/a profile of memory/);
  });
});
