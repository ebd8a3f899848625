import {
  type Compute,
  currentSession,
  freeNode,
  type Model,
  type Module,
} from '@shardwise/core/extend';
import { costsOf } from './count-model-costs.ts';
import { checkModelCostsOf, type ModelCosts, type ModelCostsOptions } from './model-costs.ts';
import { TracedModel } from './traced-model.ts';
import { lossOfPass } from '../microbatches/loss-of-pass.ts';
import { withFrees, type WorkItem } from '../work/rank-work.ts';

/**
 * The number of timed passes. The first one makes the plans. Of the others, the fastest one counts, because it was
 * disturbed least.
 */
const PASSES = 4;

/**
 * Does the same as `countModelCosts`, and measures how long each module takes on this machine. One rank
 * computes a few passes, module by module. It is a collective: all ranks get the mean of the measured times, so
 * that all cut alike. It leaves no gradients, does not update buffers, and restores random numbers.
 *
 *     const costs = await measureModelCosts(model, [ids, targets], { loss });
 *     const parallel = await parallelize(model, pipeline({ cut: 'time', costs, microbatches: 8, loss }));
 */
export async function measureModelCosts<Inputs extends readonly unknown[]>(
  model: Module & Model<Inputs, unknown>,
  inputs: readonly [...Inputs, ...targets: unknown[]],
  options: ModelCostsOptions = {},
): Promise<ModelCosts> {
  checkModelCostsOf('measureModelCosts', model, inputs, options);
  await currentSession().realize([]);
  const traced = new TracedModel(model, inputs, lossOfPass(options.loss, options.inputs));
  const counted = costsOf(traced, model, options);
  const runs: Float32Array[] = [];
  for (let pass = 0; pass < PASSES; pass++) {
    runs.push(await timesOf(withFrees(traced.inOneRank(), new Set())));
  }
  const own = Float32Array.from(runs[0] ?? [], (_, at) =>
    Math.min(...runs.slice(1).map((run) => run[at] ?? Infinity)),
  );
  const times = await meanOfRanks(own);
  // The backward pass reaches the last module first.
  const last = counted.modules.length - 1;
  const backward = counted.modules.length;
  return {
    ...counted,
    modules: counted.modules.map((module, index) => ({
      ...module,
      times: {
        forwardMs: times[index] ?? 0,
        inputGradientMs: times[backward + 2 * (last - index)] ?? 0,
        weightGradientMs: times[backward + 2 * (last - index) + 1] ?? 0,
      },
    })),
  };
}

/** Runs the items one after the other. Returns the milliseconds that each took. */
async function timesOf(items: readonly WorkItem[]): Promise<Float32Array> {
  const times = new Float32Array(items.length);
  const run = async (compute: Compute): Promise<void> => {
    for (const [index, { computes, frees }] of items.entries()) {
      const start = performance.now();
      await compute(computes.filter(({ value }) => value === null));
      times[index] = performance.now() - start;
      for (const node of frees) if (node.value !== null) freeNode(node, 'the end of a measurement');
    }
  };
  currentSession().enqueue(run);
  await currentSession().realize([]);
  return times;
}

/** Averages over one mesh axis after the other, so that all ranks get the same bits. */
async function meanOfRanks(own: Float32Array): Promise<Float32Array> {
  const { mesh } = currentSession();
  for (const { name, size } of mesh.axes) {
    if (size === 1) continue;
    const bytes = new Uint8Array(own.buffer, own.byteOffset, own.byteLength);
    await mesh.group(name).allReduce({ bytes, dtype: 'f32' }, 'avg');
  }
  return own;
}
