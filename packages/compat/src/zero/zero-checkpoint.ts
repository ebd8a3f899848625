import { join } from 'node:path';
import {
  elementCount,
  PickledObject,
  PickledTensor,
  type PickledValue,
  type Shape,
  type TensorSource,
} from '@shardwise/core/extend';
import { diskFolder } from '@shardwise/core/node';
import type { CheckpointError, checkpoints } from 'shardwise';
import { cut, type ScatteredTensor, scatteredSource } from './scattered-tensors.ts';
import {
  brokenFile,
  countOf,
  itemsOf,
  jsonOf,
  namedValues,
  valueOf,
  type ZeroFile,
} from './zero-file.ts';
import { latestTag, openFiles, type ZeroFiles } from './zero-folder.ts';
import { type RankGroups, tensorsIn, type ZeroLayout } from './zero-layout.ts';
import { attributesOf, groupsOf, optimizerOf, statesOf, type ZeroGroup } from './zero-optimizer.ts';

/** A checkpoint of DeepSpeed in ZeRO stage 1, 2 or 3. */
export interface ZeroCheckpoint {
  readonly directory: string;
  readonly tag: string;
  readonly stage: 1 | 2 | 3;
  /** The number of data-parallel ranks that saved it. */
  readonly ranks: number;
  /**
   * The trained parameters in f32, as zero_to_fp32.py gives them, and frozen parameters and buffers in the dtype in which
   * they were saved.
   */
  readonly weights: TensorSource;
  /** The states of the optimizer by their names in PyTorch, such as `exp_avg`, with the names of parameters. */
  readonly optimizerStates: Readonly<Record<string, TensorSource>>;
  readonly optimizerGroups: readonly ZeroGroup[];
  /** The state of the schedule, as plain data. Null if there was none. */
  readonly scheduler: checkpoints.JsonValue;
  /** The attributes of the scaler of losses that are plain data, such as `cur_scale`. */
  readonly lossScaler: Readonly<Record<string, checkpoints.JsonValue>>;
  readonly globalSteps: number;
  readonly skippedSteps: number;
  readonly globalSamples: number;
  /** The plain data of `client_state`. */
  readonly clientState: Readonly<Record<string, checkpoints.JsonValue>>;
}

/** What DeepSpeed itself saves beside the client state. */
const ownKeys: ReadonlySet<string> = new Set([
  'module',
  'buffer_names',
  'optimizer',
  'param_shapes',
  'frozen_param_shapes',
  'shared_params',
  'frozen_param_fragments',
  'lr_scheduler',
  'data_sampler',
  'random_ltd',
  'sparse_tensor_module_names',
  'skipped_steps',
  'global_steps',
  'global_samples',
  'dp_world_size',
  'mp_world_size',
  'checkpoint_parallel_dimensions',
  'ds_config',
  'ds_version',
  'num_experts',
]);

/**
 * Reads a folder of `save_checkpoint` of DeepSpeed. Executes nothing of it. Default of `tag`: the one in the file `latest`.
 * Throws CheckpointError for a folder that is none, for missing ranks, and for a model that ranks of tensor or pipeline
 * parallelism divide.
 */
export async function readZeroCheckpoint(directory: string, tag?: string): Promise<ZeroCheckpoint> {
  const name = tag ?? (await latestTag(directory));
  const path = join(directory, name);
  const folder = diskFolder(path);
  const { models, optimizers } = await openFiles(folder, path);
  const [model] = models;
  const layout = layoutOf(path, model, optimizers);
  const flat = optimizers.map((each) => flatGroupsOf(each, layout.stage));
  const states = optimizers.map((each) => statesOf(each, layout));
  const [ownStates = []] = states;
  const stateNames = namedValues(ownStates[0]).map(([each]) => each);
  return {
    directory: path,
    tag: name,
    stage: layout.stage,
    ranks: layout.ranks,
    weights: scatteredSource(folder, weightsOf(models, layout, tensorsIn(layout, flat))),
    optimizerStates: Object.fromEntries(
      stateNames
        .filter((each) => each !== 'step')
        .map((each) => {
          const parts = optimizers.map((file, rank) =>
            (states[rank] ?? []).map((own, group) =>
              file.segmentOf(valueOf(own, each), `${each}[${group}]`),
            ),
          );
          return [each, scatteredSource(folder, tensorsIn(layout, parts))];
        }),
    ),
    optimizerGroups: await groupsOf(folder, optimizers[0], layout, ownStates),
    scheduler: jsonOf(valueOf(model.root, 'lr_scheduler')) ?? null,
    lossScaler: attributesOf(valueOf(optimizerOf(optimizers[0]), 'loss_scaler')),
    globalSteps: countOf(model.root, 'global_steps'),
    skippedSteps: countOf(model.root, 'skipped_steps'),
    globalSamples: countOf(model.root, 'global_samples'),
    clientState: Object.fromEntries(
      namedValues(model.root).flatMap(([key, value]): [string, checkpoints.JsonValue][] => {
        const json = ownKeys.has(key) ? undefined : jsonOf(value);
        return json === undefined ? [] : [[key, json]];
      }),
    ),
  };
}

/** Reads how ranks have divided the parameters. Throws CheckpointError for files that are not of all ranks. */
function layoutOf(path: string, model: ZeroFile, optimizers: ZeroFiles): ZeroLayout {
  const refuse = (found: string): CheckpointError => brokenFile(path, found);
  const saved = optimizerOf(optimizers[0]);
  const stage = stageOf(valueOf(saved, 'zero_stage'));
  if (stage === undefined) throw refuse('no zero_stage of 1, 2 or 3');
  const counts = valueOf(saved, 'partition_count');
  const ranks = Math.max(...(itemsOf(counts) ?? [counts ?? null]).map(Number));
  if (ranks !== optimizers.length) {
    throw refuse(`files of ${optimizers.length} ranks, where ${ranks} saved`);
  }
  const groups = (itemsOf(valueOf(model.root, 'param_shapes')) ?? []).map(
    (group) => new Map(namedValues(group).map(([key, sizes]) => [key, shapeOf(model, sizes)])),
  );
  const paddings = itemsOf(valueOf(saved, 'param_alignment_paddings')) ?? [];
  const gaps = paddings.map((group) => (itemsOf(group) ?? []).map(Number));
  return { stage, ranks, groups, gaps, refuse };
}

function stageOf(value: PickledValue | undefined): ZeroCheckpoint['stage'] | undefined {
  const stage = value instanceof PickledObject ? value.inputs[0] : value;
  return stage === 1 || stage === 2 || stage === 3 ? stage : undefined;
}

/** Throws CheckpointError for what is no torch.Size. */
function shapeOf(model: ZeroFile, sizes: PickledValue): Shape {
  const all = itemsOf(sizes);
  const shape = all?.filter((size) => typeof size === 'number');
  if (shape !== undefined && shape.length === all?.length) return shape;
  throw model.refuse('a shape that is none');
}

/** The f32 parameters of a rank: a flat tensor for each group. */
function flatGroupsOf(file: ZeroFile, stage: ZeroLayout['stage']): RankGroups {
  const key = stage === 3 ? 'fp32_flat_groups' : 'single_partition_of_fp32_groups';
  const flat = itemsOf(valueOf(optimizerOf(file), key)) ?? [];
  return flat.map((tensor, group) => file.segmentOf(tensor, `${key}[${group}]`));
}

/** Adds to the trained parameters their other names, frozen parameters and buffers. */
function weightsOf(
  models: ZeroFiles,
  { stage }: ZeroLayout,
  trained: ReadonlyMap<string, ScatteredTensor>,
): ReadonlyMap<string, ScatteredTensor> {
  const [model] = models;
  const weights = new Map(trained);
  for (const [name, of] of namedValues(valueOf(model.root, 'shared_params'))) {
    const tensor = typeof of === 'string' ? trained.get(of) : undefined;
    if (tensor !== undefined) weights.set(name, tensor);
  }
  if (stage === 3) {
    for (const [name, sizes] of namedValues(valueOf(model.root, 'frozen_param_shapes'))) {
      const shape = shapeOf(model, sizes);
      const segments = models.map((file) => {
        const fragments = valueOf(file.root, 'frozen_param_fragments');
        return file.segmentOf(valueOf(fragments, name), name);
      });
      const dtype = segments[0]?.dtype ?? 'f32';
      // The part of the last rank may be filled up.
      const all = segments.reduce((sum, each) => sum + each.elements, 0);
      if (all < elementCount(shape)) throw model.refuse(`${all} elements of '${name}'`);
      weights.set(name, { dtype, shape, segments: cut(segments, 0, elementCount(shape)) });
    }
  }
  for (const [name, tensor] of namedValues(valueOf(model.root, 'module'))) {
    // In stage 3, parameters are empty there.
    if (weights.has(name) || !(tensor instanceof PickledTensor)) continue;
    const segment = model.segmentOf(tensor, name);
    weights.set(name, { dtype: segment.dtype, shape: tensor.shape, segments: [segment] });
  }
  return weights;
}
