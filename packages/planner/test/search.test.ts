import { describe, expect, test } from 'vitest';
import { nn, zeros } from '@shardwise/core';
import {
  type ClusterDescription,
  type ModulesDescription,
  type Prediction,
  chooseLayerStrategies,
  describeModule,
  layoutText,
  namedCluster,
  offloadedActivations,
  oneDevice,
  planText,
  planTraining,
  plannedMemory,
  predict,
  namedModel,
  readCluster,
  scriptLines,
  secondsOf,
} from '@shardwise/planner';

const eight = namedCluster('8xa100');

describe('a plan', () => {
  const plan = planTraining({ model: 'gpt:7.5b', cluster: eight, batch: 64, keep: 5 });

  test('ranks layouts that fit by the time of a step, whose terms add up to it', () => {
    const times = plan.ranked.map(({ stepSeconds }) => stepSeconds);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(times).toHaveLength(5);
    for (const { terms, stepSeconds, memory } of plan.ranked) {
      expect(secondsOf(terms)).toBeCloseTo(stepSeconds, 12);
      expect(memory.totalBytes).toBeLessThanOrEqual(plan.memoryBytes);
      const kinds = Object.values<number>({ ...memory.kinds });
      expect(kinds.reduce((sum, bytes) => sum + bytes, 0)).toBeCloseTo(memory.totalBytes, 0);
    }
  });

  test('says how many layouts were left out for which reason', () => {
    const reasons = plan.pruned.map(({ reason }) => reason);
    expect(reasons).toContain('it needs more memory than a rank has');
    expect(reasons).toContain('it fits, and is slower than those that are shown');
    const slower = plan.pruned.find(({ reason }) => reason.startsWith('it fits'));
    expect(slower?.count).toBe(plan.fitting - plan.ranked.length);
  });

  test('is data, and prints as text with the lines of the script', () => {
    expect(JSON.parse(JSON.stringify(plan))).toEqual(plan);
    const text = planText(plan);
    expect(text).toContain('gpt:7.5b, 7.468 B parameters, on 8 × a100');
    expect(text).toContain('const parallel = await dist.parallelize(model, ');
    expect(text).toContain(layoutText(plan.ranked[0]?.layout ?? oneDevice));
  });

  test('leaves schedules out whose rounds the microbatches do not fill, and plans with the others', () => {
    for (const batch of [7, 9, 30]) {
      const search = { tensorParallel: [4], pipelineParallel: [2] };
      const uneven = planTraining({ model: 'gpt:1.7b', cluster: eight, batch, keep: 1, search });
      expect(uneven.ranked).toHaveLength(1);
      const reasons = uneven.pruned.map(({ reason }) => reason);
      expect(reasons).toContain('zb1p has rounds that the microbatches do not fill');
    }
  });

  test('with another goal has the least memory instead', () => {
    const small = planTraining({
      model: 'gpt:7.5b',
      cluster: eight,
      batch: 64,
      keep: 1,
      goal: 'memory',
    });
    const [least] = small.ranked;
    expect(least?.memory.totalBytes).toBeLessThan(plan.ranked[0]?.memory.totalBytes ?? 0);
    expect(least?.memory.totalBytes).toBe(small.smallest?.memory.totalBytes);
  });

  test('lets as many layers keep their activations as the memory allows', () => {
    const free = planTraining({
      model: 'gpt:7.5b',
      cluster: eight,
      batch: 64,
      keep: 1,
      memoryBytes: 30e9,
      search: {
        tensorParallel: [1],
        pipelineParallel: [1],
        zero: [3],
        rows: [2],
        recompute: ['none', 'full'],
        offload: ['nothing'],
      },
    });
    const [best] = free.ranked;
    const recompute = best?.layout.recompute ?? 'none';
    expect(recompute).toBeInstanceOf(Array);
    expect(best?.memory.totalBytes).toBeLessThanOrEqual(30e9);
    // One layer more would not fit.
    const layer = plannedMemory(
      namedModel('gpt:7.5b'),
      { ...(best?.layout ?? oneDevice), recompute: withOneMore(recompute) },
      free.workload,
      eight,
    );
    expect(layer.totalBytes).toBeGreaterThan(30e9);
  });
});

function withOneMore(recompute: string | readonly string[]): ('none' | 'full')[] {
  const list = Array.from(typeof recompute === 'string' ? [] : recompute);
  const at = list.indexOf('full');
  return list.map((kind, index) => (kind === 'none' || index === at ? 'none' : 'full'));
}

describe('activations that are offloaded in the place of recomputation', () => {
  const workload = { batch: 32, sequence: 2048 };
  const model = namedModel('gpt:7.5b');
  const of = (
    recompute: 'none' | 'full',
    cluster = eight,
  ): ReturnType<typeof offloadedActivations> => {
    const layout = { ...oneDevice, dataParallel: 8, zero: 3, shardRanks: 8, recompute } as const;
    return offloadedActivations(
      predict(model, layout, workload, cluster),
      model,
      workload,
      cluster,
    );
  };

  test('are copied there and back for each microbatch, beside the computation', () => {
    // Links reach 0.8 of their bandwidth.
    const toHost = { latencySeconds: 0, bytesPerSecond: 1e10 };
    const beside = of('full', { ...eight, links: { ...eight.links, toHost, overlap: 1 } });
    const after = of('full', { ...eight, links: { ...eight.links, toHost, overlap: 0 } });
    expect(beside?.copySeconds).toBeCloseTo((2 * 4 * (beside?.bytes ?? 0)) / 8e9, 6);
    expect(after?.exposedSeconds).toBe(after?.copySeconds);
    expect(beside?.exposedSeconds).toBeLessThan(beside?.copySeconds ?? 0);
    expect(of('none')).toBeNull();
  });

  test('are chosen by the script for the bandwidth that the link reaches', () => {
    const toHost = { latencySeconds: 0, bytesPerSecond: 1e10 };
    const cluster = { ...eight, links: { ...eight.links, toHost } };
    const search = { recompute: ['full'], pipelineParallel: [1] } as const;
    const plan = planTraining({ model, cluster, batch: 64, search });
    expect(planText(plan)).toContain('pageBytesPerSecond: 8.00e+9');
  });

  test('are in the text of a plan that recomputes', () => {
    const plan = planTraining({
      model,
      cluster: eight,
      batch: 64,
      search: { recompute: ['full'] },
    });
    expect(planText(plan)).toMatch(/To offload the same activations is to copy \d+\.\d\d GB/);
  });
});

describe('activations that a plan offloads layer by layer', () => {
  const search = {
    tensorParallel: [1],
    pipelineParallel: [1],
    zero: [3],
    rows: [2],
    offload: ['nothing'],
  } as const;
  const best = (bytesPerSecond: number, more: Partial<ClusterDescription> = {}): Prediction => {
    const toHost = { latencySeconds: 0, bytesPerSecond };
    const cluster = { ...eight, ...more, links: { ...eight.links, toHost, overlap: 1 } };
    const { ranked } = planTraining({
      model: 'gpt:7.5b',
      cluster,
      batch: 64,
      keep: 1,
      memoryBytes: 30e9,
      search,
    });
    const [first] = ranked;
    if (first === undefined) throw new RangeError('a layout fits');
    return first;
  };
  const layersOf = ({ layout: { recompute } }: Prediction, kind: string): number =>
    typeof recompute === 'string' ? 0 : recompute.filter((each) => each === kind).length;

  test('are those of all layers that would be computed again, if computation hides the copies', () => {
    const offloaded = best(1e12);
    expect(layersOf(offloaded, 'full')).toBe(0);
    expect(layersOf(offloaded, 'offload')).toBeGreaterThan(0);
    expect(offloaded.terms).toMatchObject({ recompute: 0, offload: 0 });
    expect(offloaded.memory.hostBytes).toBeGreaterThan(0);
    expect(offloaded.memory.totalBytes).toBeLessThanOrEqual(30e9);
    expect(layoutText(offloaded.layout)).toMatch(/offload activations of \d+ of 36 layers$/);
  });

  test('are none if the link takes longer than computing again', () => {
    const computed = best(1e6);
    expect(layersOf(computed, 'offload')).toBe(0);
    expect(layersOf(computed, 'full')).toBeGreaterThan(0);
    expect(layoutText(computed.layout)).not.toContain('offload');
  });

  test('are none if the host has no memory for them', () => {
    expect(layersOf(best(1e12, { hostMemoryBytes: 1e6 }), 'offload')).toBe(0);
  });

  test('are those whose copies computation hides, and layers beyond that are computed again', () => {
    const mixed = best(1.2e10);
    expect(layersOf(mixed, 'offload')).toBeGreaterThan(0);
    expect(layersOf(mixed, 'full')).toBeGreaterThan(0);
    expect(mixed.stepSeconds).toBeLessThan(best(1e6).stepSeconds);
    expect(mixed.stepSeconds).toBeGreaterThan(best(1e12).stepSeconds);
  });

  test('leave less computation to hide the copies of the layers that are computed again', () => {
    const model = namedModel('gpt:7.5b');
    const toHost = { latencySeconds: 0, bytesPerSecond: 2e10 };
    const cluster = { ...eight, links: { ...eight.links, toHost, overlap: 1 } };
    const workload = { batch: 64, sequence: 2048 };
    const mixed = best(2e10);
    const kinds = typeof mixed.layout.recompute === 'string' ? [] : mixed.layout.recompute;
    const recompute = kinds.map((kind) => (kind === 'full' ? 'offload' : kind));
    const all = predict(model, { ...mixed.layout, recompute }, workload, cluster);
    const more = offloadedActivations(mixed, model, workload, cluster)?.exposedSeconds ?? 0;
    // A layer that is computed again keeps its result, so a little less is copied.
    expect(more / (all.terms.offload - mixed.terms.offload)).toBeGreaterThan(0.9);
    expect(more).toBeGreaterThan(mixed.terms.recompute);
  });

  test('are those of no pipeline, and the plan says so', () => {
    const { ranked, pruned } = planTraining({
      model: 'gpt:7.5b',
      cluster: eight,
      batch: 64,
      search: { recompute: ['offload'], pipelineParallel: [2], tensorParallel: [1] },
    });
    expect(ranked).toEqual([]);
    expect(pruned.map(({ reason }) => reason)).toContain(
      'activations cannot be offloaded (a pipeline, or no link to the host)',
    );
  });

  test('are no more than memory asks for, if their copies take time', () => {
    const { ranked } = planTraining({
      model: 'gpt:7.5b',
      cluster: {
        ...eight,
        links: { ...eight.links, toHost: { latencySeconds: 0, bytesPerSecond: 1e9 } },
      },
      batch: 64,
      keep: 1,
      memoryBytes: 30e9,
      search: { ...search, recompute: ['none', 'offload'] },
    });
    const [found] = ranked;
    if (found === undefined) throw new RangeError('a layout fits');
    const { layout, memory } = found;
    expect(memory.totalBytes).toBeLessThanOrEqual(30e9);
    const kinds = typeof layout.recompute === 'string' ? [] : layout.recompute;
    const first = kinds.indexOf('offload');
    const fewer = { ...layout, recompute: kinds.with(first, 'none') };
    const workload = { batch: 64, sequence: 2048 };
    expect(
      plannedMemory(namedModel('gpt:7.5b'), fewer, workload, eight).totalBytes,
    ).toBeGreaterThan(30e9);
  });

  test('come with a budget for both in the lines of the script', () => {
    const { layout } = best(1.2e10);
    const budget = { passBytes: 1e9, flopsPerSecond: 1e14, pageBytesPerSecond: 1e10 };
    const lines = scriptLines(layout, { batch: 64, sequence: 2048 }, budget).join('\n');
    expect(lines).toContain('const pages = dist.hostPages();');
    expect(lines).toContain('// Compute layers again with nn.checkpoint: full in ');
    expect(lines).toContain('// Offload the activations of ');
    expect(lines).toContain('nn.activationMemoryBudget({');
  });
});

test('what an offload would copy of layers that keep less than their result is not negative', () => {
  const module = (activationBytes: number): ModulesDescription['modules'][number] => ({
    path: 'layer',
    parameters: 10,
    stateBytes: 160,
    flops: 6e9,
    activationBytes,
    weightGradientBytes: 0,
    outputBytes: 1000,
    times: null,
  });
  const workload = { batch: 1, sequence: 1 };
  const copied = (...kept: readonly number[]): number | undefined => {
    const model = { kind: 'modules', name: 'm', rows: 1, modules: kept.map(module) } as const;
    const layout = { ...oneDevice, recompute: 'full' } as const;
    return offloadedActivations(predict(model, layout, workload, eight), model, workload, eight)
      ?.bytes;
  };
  expect(copied(5000, 0, 0, 0, 0, 0)).toBe(4000);
  expect(copied(0, 0)).toBeUndefined();
});

describe('if nothing fits', () => {
  const plan = planTraining({
    model: 'gpt:39.1b',
    cluster: eight,
    batch: 16,
    search: { offload: ['nothing'], recompute: ['none'] },
  });

  test('the plan says the least that would do, and the three smallest changes with their step', () => {
    expect(plan.ranked).toEqual([]);
    expect(plan.smallest?.memory.totalBytes).toBeGreaterThan(80e9);
    expect(plan.changes).toHaveLength(3);
    const factors = plan.changes.map(({ factor }) => factor);
    expect(factors).toEqual(factors.toSorted((a, b) => a - b));
    for (const { prediction } of plan.changes) expect(prediction.stepSeconds).toBeGreaterThan(0);
    expect(planText(plan)).toContain('Nothing fits. The least that a rank needs is');
  });

  test.each([
    ['a limit below the memory of the device', { memoryBytes: 20e9 }, 'Give each rank 24.3 GB'],
    ['too few devices', { cluster: '1xa100', sequence: 512 }, 'Take devices of'],
  ])('there are three changes by %s', (_, asked, words) => {
    const { changes, ranked } = planTraining({
      model: 'llama3:70b',
      cluster: '8xa100',
      batch: 8,
      sequence: 4096,
      ...asked,
    });
    expect(ranked).toEqual([]);
    expect(changes).toHaveLength(3);
    expect(changes.map(({ change }) => change).join('\n')).toContain(words);
    expect(changes.map(({ change }) => change).join('\n')).toContain('Train a model of');
  });

  test('devices that no rows can be divided among want other rows', () => {
    const model = describeModule(
      new nn.Sequential(new nn.Linear(8, 8)),
      [zeros([1, 8]), zeros([1, 8])],
      { loss: nn.functional.mseLoss },
    );
    const { smallest, changes } = planTraining({ model, cluster: '8xa100', batch: 6 });
    expect(smallest).toBeNull();
    expect(changes.map(({ change }) => change)).toEqual(['Train on batches of 8 rows']);
  });
});

describe('layouts of published runs', () => {
  test("BLOOM's 384 devices are 8 replicas of 12 stages of 4 ranks, and 48 × 12 × 4 needs 2304", () => {
    const search = {
      tensorParallel: [4],
      pipelineParallel: [12],
      schedule: ['1f1b'],
      rows: [2],
    } as const;
    const plan = planTraining({
      model: 'bloom:176b',
      cluster: '48x8xa100',
      batch: 2048,
      search: { ...search, recompute: ['full'], zero: [1], offload: ['nothing'] },
    });
    expect(plan.ranked.map(({ layout }) => layout.dataParallel)).toEqual([8]);
    const wide = planTraining({
      model: 'bloom:176b',
      cluster: '288x8xa100',
      batch: 48 * 48,
      search: { ...search, recompute: ['full'], zero: [1], offload: ['nothing'] },
    });
    expect(wide.ranked.map(({ layout }) => layout.dataParallel)).toEqual([48]);
  });

  test("DeepSpeed's example of 32 devices is 2 replicas of 4 stages of 4 ranks", () => {
    const plan = planTraining({
      model: 'gpt:18.4b',
      cluster: '32xa100',
      batch: 64,
      search: {
        tensorParallel: [4],
        pipelineParallel: [4],
        schedule: ['1f1b'],
        rows: [1],
        offload: ['nothing'],
      },
    });
    expect(plan.ranked[0]?.layout).toMatchObject({
      dataParallel: 2,
      tensorParallel: 4,
      pipelineParallel: 4,
    });
    expect(scriptLines(plan.ranked[0]?.layout ?? oneDevice, plan.workload)[0]).toBe(
      "const context = await init({ mesh: [{ name: 'pp', size: 4 }, { name: 'dp', size: 2 }, { name: 'tp', size: 4 }] });",
    );
  });
});

describe('dynamic programming over layers', () => {
  test('finds the best of all combinations', () => {
    const layers = [
      [
        { bytes: 5, seconds: 1 },
        { bytes: 1, seconds: 4 },
      ],
      [
        { bytes: 6, seconds: 1 },
        { bytes: 2, seconds: 2 },
        { bytes: 0, seconds: 9 },
      ],
      [
        { bytes: 4, seconds: 2 },
        { bytes: 1, seconds: 3 },
      ],
      [
        { bytes: 7, seconds: 1 },
        { bytes: 3, seconds: 5 },
      ],
    ];
    const cost = (from: number, to: number): number => (from === to ? 0 : 0.5);
    for (let memory = 6; memory <= 24; memory++) {
      const found = chooseLayerStrategies(layers, memory, cost);
      expect(found?.seconds).toBe(leastOfAll(layers, memory, cost));
      expect(found?.bytes).toBeLessThanOrEqual(memory);
    }
    expect(chooseLayerStrategies(layers, 4)).toBeNull();
  });
});

interface Choice {
  readonly bytes: number;
  readonly seconds: number;
}

function leastOfAll(
  [choices, ...rest]: readonly (readonly Choice[])[],
  memory: number,
  cost: (from: number, to: number) => number,
  last?: number,
): number {
  if (choices === undefined) return 0;
  return Math.min(
    ...choices.map(({ bytes, seconds }, to) =>
      bytes > memory
        ? Infinity
        : seconds +
          (last === undefined ? 0 : cost(last, to)) +
          leastOfAll(rest, memory - bytes, cost, to),
    ),
  );
}

describe('mistakes are one clear error', () => {
  const good = { model: 'gpt:1.7b', cluster: '8xa100', batch: 8 } as const;
  test.each([
    [{ ...good, cluster: '12xa100' }, '12 devices, which are no whole number of hosts'],
    [{ ...good, cluster: '8xabacus' }, "no device 'abacus'"],
    [{ ...good, batch: 0 }, 'batch'],
    [{ ...good, memoryBytes: 90e9 }, 'devices of 80 GB'],
    [{ ...good, search: { zero: [4] } }, 'zero'],
  ])('%#', (options, message) => {
    // @ts-expect-error Some of them are mistakes of types, too.
    expect(() => planTraining(options)).toThrow(message);
  });

  test('of a file of a cluster, which names the field', () => {
    expect(() => readCluster({ ...eight, hosts: -1 })).toThrow("'hosts'");
    expect(() => readCluster({ ...eight, more: 1 })).toThrow(/more/);
    expect(() => readCluster('text')).toThrow('the description of a cluster');
  });
});
