import { cpu } from '@shardwise/backend-cpu';
import { beforeEach, describe, expect, it } from 'vitest';
import { rankState } from '../src/ambient.ts';
import type { Node } from '../src/graph/node.ts';
import { manualSeed, nn, optim, randn } from '../src/index.ts';
import { flopsProfiler } from '../src/nn/profile/flops-profiler.ts';
import { GraphPlaces, type Phase, phases } from '../src/nn/profile/graph-places.ts';
import { setRank } from '../src/rank.ts';
import type { ProgramPart } from '../src/realize/times/program-parts.ts';
import { timePlans } from '../src/realize/times/time-plans.ts';
import type { Backend, Executable, Program, RunOptions } from '../src/spec/backend.ts';

interface Computed {
  readonly part: ProgramPart;
  readonly nodes: readonly Node[];
  readonly ms: number;
}

/** What is told of the runs in `body`. */
async function timed(body: () => Promise<unknown>): Promise<{
  readonly computed: readonly Computed[];
  readonly runs: readonly (readonly Node[])[];
  readonly betweenMs: number;
}> {
  const computed: Computed[] = [];
  const runs: (readonly Node[])[] = [];
  let betweenMs = 0;
  const end = timePlans({
    begin: (nodes) => runs.push(nodes),
    computed: (part, nodes, ms) => computed.push({ part, nodes, ms }),
    between: (ms) => {
      betweenMs += ms;
    },
    waited: () => expect.unreachable('one rank waits for nobody'),
  });
  try {
    await body();
  } finally {
    end();
  }
  return { computed, runs, betweenMs };
}

/** A transformer layer and a head, one of them recomputed in the backward pass, and their training step. */
function training(): { model: nn.Module; step: () => Promise<number> } {
  manualSeed(0);
  const layer = new nn.TransformerEncoderLayer(32, 4, { dimFeedforward: 64, dropout: 0 });
  const head = new nn.Linear(32, 10);
  const model = new nn.ModuleList<nn.Module>([layer, head]);
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
  const x = randn([4, 8, 32]);
  const step = async (): Promise<number> => {
    const hidden = nn.checkpoint(() => layer.forward(x));
    const loss = head.forward(hidden).square().mean();
    loss.backward();
    await optimizer.step();
    optimizer.zeroGrad();
    return loss.item();
  };
  return { model, step };
}

/** The same device. `onRun` is called with the options of each run, and `pass` says which of them the device is given. */
function watched(
  device: Backend,
  onRun: (options: RunOptions) => unknown,
  pass: (options: RunOptions) => RunOptions = (options) => options,
): Backend {
  const watch = (executable: Executable): Executable => ({
    run: (inputs, outputs, options = {}) => {
      onRun(options);
      return executable.run(inputs, outputs, pass(options));
    },
    dispose: () => executable.dispose(),
  });
  return new Proxy(device, {
    get(target, key) {
      if (key === 'compileSized') return undefined;
      if (key === 'compile')
        return async (program: Program) => watch(await target.compile(program));
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

beforeEach(async () => setRank({ device: await cpu() }));

describe('the times of plans', () => {
  it('count the products that run, in each phase, as the profiler of FLOPs does', async () => {
    const { model, step } = training();
    const profiler = flopsProfiler(model, { convention: 'pytorch' });
    const places = new GraphPlaces();
    profiler.startProfile();
    const flops: Record<Phase, number> = {
      forward: 0,
      backward: 0,
      recomputation: 0,
      optimizer: 0,
    };
    const phaseOf = new Map<Node, Phase>();
    const end = timePlans({
      begin: (nodes) => nodes.forEach((node) => phaseOf.set(node, places.placeOf(node).phase)),
      computed: ({ shares }, nodes) => {
        for (const share of shares) {
          const phase = phaseOf.get(nodes[share.node] ?? expect.unreachable('no such node'));
          flops[phase ?? 'forward'] += share.flops;
        }
      },
      between: () => {},
      waited: () => {},
    });
    await step();
    end();
    places.close();
    const { work } = profiler.stopProfile();
    expect(flops).toEqual(Object.fromEntries(phases.map((phase) => [phase, work[phase].flops])));
    expect(Math.min(flops.forward, flops.backward, flops.recomputation)).toBeGreaterThan(0);
  });

  it('divide each part among nodes, of which each begins once', async () => {
    const { step } = training();
    await step();
    const { computed, runs, betweenMs } = await timed(step);
    expect(runs.length).toBeGreaterThan(0);
    const begun = new Map<readonly Node[], Set<number>>(runs.map((nodes) => [nodes, new Set()]));
    for (const { part, nodes, ms } of computed) {
      const total = part.shares.reduce((sum, { share }) => sum + share, 0);
      if (part.shares.length > 0) expect(total).toBeCloseTo(1, 9);
      expect(ms).toBeGreaterThanOrEqual(0);
      for (const { node, isFirst } of part.shares) {
        if (!isFirst) continue;
        expect(begun.get(nodes)?.has(node)).toBe(false);
        begun.get(nodes)?.add(node);
      }
    }
    const products = runs.flatMap((nodes) => nodes.filter(({ op }) => op === 'matmul'));
    const counted = [...begun].flatMap(([nodes, own]) =>
      [...own].filter((node) => nodes[node]?.op === 'matmul'),
    );
    expect(counted).toHaveLength(products.length);
    expect(betweenMs).toBeGreaterThanOrEqual(0);
  });

  it('know the operations and the least bytes of a product: its operands and its result', async () => {
    const [a, b] = [randn([16, 32]), randn([32, 64])];
    await a.data();
    await b.data();
    const { computed } = await timed(() => a.matmul(b).data());
    const parts = computed.filter(({ part }) => part.flops > 0);
    expect(parts.map(({ part }) => part)).toEqual([
      {
        flops: 2 * 16 * 32 * 64,
        halfFlops: 0,
        bytes: 4 * (16 * 32 + 32 * 64 + 16 * 64),
        shares: [expect.objectContaining({ share: 1, flops: 2 * 16 * 32 * 64 })],
      },
    ]);
  });

  it('are of whole programs on a device that does not divide them, and their nodes share it by an estimate', async () => {
    setRank({
      device: watched(
        await cpu(),
        () => {},
        ({ overlap = false }) => ({ overlap }),
      ),
    });
    const [a, b] = [randn([64, 64]), randn([64, 64])];
    await a.data();
    await b.data();
    const { computed } = await timed(() => a.matmul(b).exp().data());
    expect(computed).toHaveLength(1);
    const [{ part, nodes } = expect.unreachable('nothing computed')] = computed;
    expect(part.flops).toBe(2 * 64 ** 3);
    expect(part.bytes).toBe(3 * 4 * 64 ** 2);
    const shares = Object.fromEntries(
      part.shares.map(({ node, share }) => [nodes[node]?.op, share]),
    );
    // 32 operations count as a byte, and each element as 2.
    const [product, loop] = [(2 * 64 ** 3) / 32 + 2 * 64 ** 2, 2 * 64 ** 2];
    expect(shares).toEqual({
      matmul: expect.closeTo(product / (product + loop), 9),
      exp: expect.closeTo(loop / (product + loop), 9),
    });
  });

  it('change nothing of what is computed', async () => {
    const plain = training();
    const expected = [await plain.step(), await plain.step(), await plain.step()];
    const { step } = training();
    const losses: number[] = [];
    for (let index = 0; index < 3; index++) await timed(async () => losses.push(await step()));
    expect(losses).toEqual(expected);
  });

  it('are not taken before the profiler begins and after it has ended: no program is asked for its parts', async () => {
    const asked: boolean[] = [];
    setRank({ device: watched(await cpu(), (options) => asked.push('onPart' in options)) });
    const { step } = training();
    const askedIn = async (body: () => Promise<unknown>): Promise<ReadonlySet<boolean>> => {
      asked.length = 0;
      await body();
      return new Set(asked);
    };
    expect(await askedIn(step)).toEqual(new Set([false]));
    expect(await askedIn(() => timed(step))).toEqual(new Set([true]));
    expect(await askedIn(step)).toEqual(new Set([false]));
    expect(rankState.observer).toBeNull();
  });
});
