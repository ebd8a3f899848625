import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  elementCount,
  type ModelFolder,
  PickledDict,
  PickledObject,
  type PickledValue,
  type Shape,
  type TensorSource,
  replicated,
  wholeChunk,
} from '@shardwise/core/extend';
import { diskFolder } from '@shardwise/core/node';
import { CheckpointError, type checkpoints } from 'shardwise';
import {
  brokenFile,
  cut,
  itemsOf,
  scatteredSource,
  type ScatteredTensor,
  type Segment,
  valueOf,
  ZeroFile,
} from './zero-files.ts';

/** A checkpoint of DeepSpeed in ZeRO stage 1, 2 or 3. */
export interface ZeroCheckpoint {
  readonly tag: string;
  readonly stage: 1 | 2 | 3;
  /** The number of data-parallel ranks that saved it. */
  readonly ranks: number;
  /** The trained parameters in f32, with all names of shared ones, as zero_to_fp32.py gives them. */
  readonly weights: TensorSource;
  /** The names of frozen parameters and buffers, which have no f32 weights, so that `weights` does not have them. */
  readonly others: readonly string[];
  /** The states of the optimizer by their names in PyTorch, such as `exp_avg`, with the names of parameters. */
  readonly optimizerStates: Readonly<Record<string, TensorSource>>;
  /** The number of updates that the optimizer has made. Null if it does not count them. */
  readonly step: number | null;
  readonly globalSteps: number;
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
  const refuse = (found: string): CheckpointError => brokenFile(path, found);
  const names = await readdir(path).catch((cause: unknown) => {
    throw refuse(cause instanceof Error ? cause.message : String(cause));
  });
  const folder = diskFolder(path);
  const ofRank = (each: string): number =>
    Number(/zero_pp_rank_(\d+)_mp_rank_00_optim_states\.pt$/.exec(each)?.[1] ?? Number.NaN);
  const optimNames = names
    .filter((each) => Number.isInteger(ofRank(each)))
    .toSorted((a, b) => ofRank(a) - ofRank(b));
  if (names.some((each) => /mp_rank_0*[1-9]\d*_/.test(each)))
    throw refuse('files of several ranks of tensor or pipeline parallelism');
  const modelName = [
    'mp_rank_00_model_states.pt',
    'zero_pp_rank_0_mp_rank_00_model_states.pt',
  ].find((each) => names.includes(each));
  if (modelName === undefined || optimNames.length === 0) throw refuse('no files of ZeRO');
  const model = await ZeroFile.open(folder, modelName);
  const files: ZeroFile[] = [];
  for (const each of optimNames) files.push(await ZeroFile.open(folder, each));
  const optimizers = files.map((file) => valueOf(file.root, 'optimizer_state_dict'));
  const stage = stageOf(valueOf(optimizers[0], 'zero_stage'));
  if (stage === undefined) throw refuse('no zero_stage of 1, 2 or 3');
  const counts = valueOf(optimizers[0], 'partition_count');
  const ranks = Math.max(...(itemsOf(counts) ?? [counts ?? null]).map(Number));
  if (ranks !== files.length) throw refuse(`files of ${files.length} ranks, where ${ranks} saved`);

  const groups = (itemsOf(valueOf(model.root, 'param_shapes')) ?? []).map((group) => {
    if (!(group instanceof PickledDict)) throw model.refuse('shapes that are no dict');
    return group.entries.map(([key, sizes]): readonly [string, Shape] => {
      const shape = itemsOf(sizes)?.filter((size) => typeof size === 'number');
      if (typeof key !== 'string' || shape === undefined)
        throw model.refuse('a shape that is none');
      return [key, shape];
    });
  });
  const paddings = itemsOf(valueOf(optimizers[0], 'param_alignment_paddings'));
  const groupsKey = stage === 3 ? 'fp32_flat_groups' : 'single_partition_of_fp32_groups';
  /** What each rank has of each group. */
  type Flat = readonly (readonly Segment[])[];
  const flat = files.map((file, rank) =>
    (itemsOf(valueOf(optimizers[rank], groupsKey)) ?? []).map((tensor, group) =>
      file.segmentOf(tensor, `${groupsKey}[${group}]`),
    ),
  );
  const tensorsOf = (parts: Flat): ReadonlyMap<string, ScatteredTensor> => {
    const tensors = new Map<string, ScatteredTensor>();
    const add = (key: string, shape: Shape, segments: readonly Segment[]): void => {
      const elements = segments.reduce((sum, each) => sum + each.elements, 0);
      if (elements !== elementCount(shape)) {
        throw refuse(`${elements} elements of '${key}', which has ${elementCount(shape)}`);
      }
      tensors.set(key, { shape, segments });
    };
    if (stage === 3) {
      // Each rank has a part of each parameter, padded at the end of the last one.
      let at = 0;
      for (const [key, shape] of groups.flat()) {
        const all = elementCount(shape);
        const part = Math.ceil(all / ranks);
        const pieces = parts.flatMap((own) => cut(own, at, part));
        add(key, shape, cut(pieces, 0, all));
        at += part;
      }
      return tensors;
    }
    // Ranks have consecutive parts of the parameters of a group, one after the other.
    for (const [index, group] of groups.entries()) {
      const whole = parts.flatMap((own) => own[index] ?? []);
      const gaps = itemsOf(paddings?.[index]);
      let at = 0;
      for (const [place, [key, shape]] of group.entries()) {
        add(key, shape, cut(whole, at, elementCount(shape)));
        at += elementCount(shape) + Number(gaps?.[place] ?? 0);
      }
    }
    return tensors;
  };

  const stateKey = stage === 3 ? 'optimizer_state_dict' : 'base_optimizer_state';
  const states = optimizers.map((each, rank) =>
    statesOf(valueOf(each, stateKey), flat[rank]?.length ?? 0),
  );
  const stateNames = namesOf(states[0]?.[0]).filter((each) => each !== 'step');
  const optimizerStates = stateNames.map((each) => {
    const parts = files.map((file, rank) =>
      (states[rank] ?? []).map((own, group) =>
        file.segmentOf(valueOf(own, each), `${each}[${group}]`),
      ),
    );
    return [each, scatteredSource(folder, tensorsOf(parts))] as const;
  });
  const weights = new Map(tensorsOf(flat));
  const shared = valueOf(model.root, 'shared_params');
  for (const [key, of] of shared instanceof PickledDict ? shared.entries : []) {
    const tensor = typeof of === 'string' ? weights.get(of) : undefined;
    if (typeof key === 'string' && tensor !== undefined) weights.set(key, tensor);
  }
  const globalSteps = valueOf(model.root, 'global_steps');
  return {
    tag: name,
    stage,
    ranks,
    weights: scatteredSource(folder, weights),
    others: namesOf(valueOf(model.root, 'module')).filter((each) => !weights.has(each)),
    optimizerStates: Object.fromEntries(optimizerStates),
    step: await stepOf(folder, files[0], valueOf(states[0]?.[0], 'step')),
    globalSteps: typeof globalSteps === 'number' ? globalSteps : 0,
    clientState: clientStateOf(model.root),
  };
}

async function latestTag(directory: string): Promise<string> {
  const path = join(directory, 'latest');
  const noTag = (found: string, cause?: unknown): CheckpointError =>
    new CheckpointError(
      {
        asked: `Reading the checkpoint of DeepSpeed in ${directory}`,
        found,
        todo: 'Give the tag, which is the name of a folder in it such as global_step100',
      },
      { path },
      { cause },
    );
  const text = await readFile(path, 'utf8').catch((cause: unknown) => {
    throw noTag('no file "latest" with the name of one', cause);
  });
  const tag = text.trim();
  if (tag !== '' && !/[/\\]/.test(tag) && tag !== '..') return tag;
  throw noTag('a file "latest" without the name of a folder');
}

function stageOf(value: PickledValue | undefined): ZeroCheckpoint['stage'] | undefined {
  const stage = value instanceof PickledObject ? value.inputs[0] : value;
  return stage === 1 || stage === 2 || stage === 3 ? stage : undefined;
}

/** The states of each group: of a state dict of PyTorch, or of a list. */
function statesOf(
  value: PickledValue | undefined,
  groups: number,
): readonly (PickledValue | undefined)[] {
  const list = itemsOf(value);
  if (list !== undefined) return list;
  const state = valueOf(value, 'state');
  return Array.from({ length: groups }, (_, group) => valueOf(state, group));
}

function namesOf(of: PickledValue | undefined): readonly string[] {
  if (!(of instanceof PickledDict)) return [];
  return of.entries.flatMap(([key]) => (typeof key === 'string' ? [key] : []));
}

/** The number of updates, which is a number or a tensor of one. */
async function stepOf(
  folder: ModelFolder,
  file: ZeroFile | undefined,
  value: PickledValue | undefined,
): Promise<number | null> {
  if (typeof value === 'number') return value;
  if (file === undefined || value === undefined || value === null) return null;
  const segments = [file.segmentOf(value, 'step')];
  await using reader = scatteredSource(folder, new Map([['step', { shape: [], segments }]])).open();
  const bytes = new Uint8Array(Float32Array.BYTES_PER_ELEMENT);
  await reader.fill('step', wholeChunk([]), bytes, { layout: replicated([]) });
  return new DataView(bytes.buffer).getFloat32(0, true);
}

function clientStateOf(root: PickledDict): ZeroCheckpoint['clientState'] {
  const entries = root.entries.flatMap(([key, value]): [string, checkpoints.JsonValue][] => {
    const json = typeof key === 'string' && !ownKeys.has(key) ? jsonOf(value) : undefined;
    return typeof key !== 'string' || json === undefined ? [] : [[key, json]];
  });
  return Object.fromEntries(entries);
}

/** Plain data. Undefined for anything else, such as a tensor. */
function jsonOf(value: PickledValue): checkpoints.JsonValue | undefined {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  const items = itemsOf(value)?.map(jsonOf);
  if (items !== undefined) {
    const known = items.filter((each) => each !== undefined);
    return known.length === items.length ? known : undefined;
  }
  if (!(value instanceof PickledDict)) return undefined;
  const entries = value.entries.flatMap(([key, each]): [string, checkpoints.JsonValue][] => {
    const json = jsonOf(each);
    return typeof key === 'string' && json !== undefined ? [[key, json]] : [];
  });
  return entries.length === value.entries.length ? Object.fromEntries(entries) : undefined;
}
