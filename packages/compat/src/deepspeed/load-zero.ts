import {
  chunksOf,
  currentSession,
  dtypes,
  elementCount,
  hostArray,
  type HostArray,
  type HostArrays,
  isHeldAt,
  loadTensors,
  modelTensors,
  type Module,
  ownPlace,
  type SavedType,
  stateMismatch,
  stepName,
  type Tensor,
  type TensorReader,
} from '@shardwise/core/extend';
import { CheckpointError, type checkpoints, optim } from 'shardwise';
import { z } from 'zod';
import type { ZeroCheckpoint } from '../zero/zero-checkpoint.ts';
import type { ZeroGroup } from '../zero/zero-optimizer.ts';
import type { EngineOptimizer } from './optimizers.ts';
import { DeepSpeedScheduler } from './schedulers.ts';

/** What a checkpoint of DeepSpeed is loaded into. What is undefined is not loaded. */
export interface ZeroTarget {
  readonly module: Module;
  /** Whether names that one side does not have are errors. */
  readonly strict: boolean;
  readonly optimizer: EngineOptimizer | undefined;
  readonly scheduler: object | undefined;
  readonly scaler: optim.LossScaler | undefined;
}

/** The states and settings of an optimizer. */
interface OptimizerPart {
  readonly saved: ReadonlyMap<Tensor, HostArrays>;
  readonly settings: readonly object[];
}

/**
 * Loads a checkpoint of DeepSpeed, whatever the strategy is and however many ranks saved it. Each rank reads what it keeps. It
 * is a collective. Throws CheckpointError, before anything changes, for parameters, states, settings and schedules that do not
 * fit.
 */
export async function loadZero(checkpoint: ZeroCheckpoint, target: ZeroTarget): Promise<void> {
  const { module, strict, optimizer, scheduler, scaler } = target;
  const loadScheduler =
    scheduler === undefined ? undefined : schedulerLoader(checkpoint, scheduler);
  const loadScaler = scalerLoader(checkpoint, scaler);
  const part =
    optimizer === undefined ? undefined : await readOptimizer(checkpoint, module, optimizer);
  // Frozen parameters and buffers are there in 16 bits, which become f32 without a loss.
  await loadTensors(checkpoint.weights, module, { strict, rounds: true });
  if (part !== undefined) {
    optimizer?.restore(part.saved, part.settings);
    await currentSession().realize([]);
  }
  loadScheduler?.();
  loadScaler?.();
}

/** Reads this rank's part of the states. Throws CheckpointError for another optimizer, or one of other parameters. */
async function readOptimizer(
  checkpoint: ZeroCheckpoint,
  module: Module,
  optimizer: EngineOptimizer,
): Promise<OptimizerPart> {
  const groups = new Map(
    checkpoint.optimizerGroups.flatMap((group) => group.params.map((name) => [name, group])),
  );
  const names = new Map(
    modelTensors(module).map(({ names: [first, ...others], tensor }) => [
      tensor,
      [first, ...others].find((each) => groups.has(each)) ?? first,
    ]),
  );
  const parameters = optimizer.paramGroups.flatMap(({ params }) => params);
  const own = parameters.map((parameter) => names.get(parameter) ?? '');
  const types = new Map(
    parameters.map((parameter) => [
      parameter,
      Object.keys(checkpoint.optimizerStates).map(
        (state) => [state, optimizer.savedType(parameter, state)] as const,
      ),
    ]),
  );
  const different = parameters.flatMap((parameter, index) =>
    (types.get(parameter) ?? []).flatMap(([state, type]) => {
      const name = own[index] ?? '';
      const why = differenceOf(checkpoint, state, name, type);
      return why === undefined ? [] : [`${state} of ${name} (${why})`];
    }),
  );
  const missing = own.filter((name) => !groups.has(name));
  const unexpected = [...groups.keys()].filter((name) => !own.includes(name));
  if (missing.length + unexpected.length + different.length > 0) {
    throw stateMismatch(
      `to load the optimizer of ${checkpoint.directory} into one of ${own.length} parameters`,
      { missing, unexpected, different },
      'Make the optimizer of the same kind and parameters, or pass loadOptimizerStates: false',
    );
  }
  const settings = optimizer.paramGroups.map((group, index) =>
    settingsOf(
      index,
      group,
      new Set(group.params.flatMap((each) => groups.get(names.get(each) ?? '') ?? [])),
    ),
  );
  const saved = new Map<Tensor, HostArrays>();
  const readers = new Map<string, TensorReader>();
  try {
    for (const parameter of parameters) {
      if (!isHeldAt(parameter.part.layout, ownPlace)) continue;
      const name = names.get(parameter) ?? '';
      const steps = groups.get(name)?.steps ?? null;
      const arrays: Record<string, HostArray> = {};
      for (const [state, type] of types.get(parameter) ?? []) {
        const reader = readers.get(state) ?? checkpoint.optimizerStates[state]?.open();
        if (reader === undefined) continue;
        readers.set(state, reader);
        arrays[state] = await readHeld(reader, name, type);
      }
      if (steps !== null) {
        arrays[stepName] = hostArray('f32', [], bytesOf(Float32Array.of(steps)));
      }
      if (Object.keys(arrays).length > 0) saved.set(parameter, arrays);
    }
  } finally {
    for (const reader of readers.values()) await reader[Symbol.asyncDispose]();
  }
  return { saved, settings };
}

function differenceOf(
  { optimizerStates }: ZeroCheckpoint,
  state: string,
  name: string,
  { dtype, wholeShape }: SavedType,
): string | undefined {
  const found = optimizerStates[state]?.get(name);
  if (found === undefined) return undefined;
  const [is, was] = [wholeShape.join(', '), found.shape.join(', ')];
  if (is !== was) return `shape [${was}], not [${is}]`;
  return dtype === found.dtype ? undefined : `${found.dtype}, not ${dtype}`;
}

/** Reads what this rank keeps of a state. Padding is zero. */
async function readHeld(
  reader: TensorReader,
  name: string,
  { dtype, shape, layout, wholeShape }: SavedType,
): Promise<HostArray> {
  const elementBytes = dtypes[dtype].bytes;
  const bytes = new Uint8Array(elementCount(shape) * elementBytes);
  let at = 0;
  for (const chunk of chunksOf(wholeShape, layout, ownPlace)) {
    const end = at + (chunk.stop - chunk.start) * elementBytes;
    await reader.fill(name, chunk, bytes.subarray(at, end), { layout });
    at = end;
  }
  return hostArray(dtype, shape, bytes);
}

function bytesOf(values: Float32Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return new Uint8Array(values.buffer);
}

/** The settings of a group that it had in DeepSpeed. Throws CheckpointError if its parameters had several. */
function settingsOf(
  index: number,
  current: object,
  groups: ReadonlySet<ZeroGroup>,
): Readonly<Record<string, checkpoints.JsonValue>> {
  const [settings = {}, ...others] = [...groups].map((group) =>
    Object.fromEntries(
      Object.entries(group.settings)
        .map(([key, value]) => [camelCase(key), value] as const)
        // The others steer the kernels of PyTorch.
        .filter(([key]) => key in current),
    ),
  );
  const text = JSON.stringify(settings);
  if (others.every((other) => JSON.stringify(other) === text)) return settings;
  throw new CheckpointError(
    {
      asked: `to load the settings of parameter group ${index}`,
      found: `parameters that were in ${groups.size} groups of other settings in DeepSpeed`,
      todo: 'Pass optimizer: (parameters) => … to initialize(), which makes the groups that were saved',
    },
    { group: index },
  );
}

function camelCase(name: string): string {
  return name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** Throws CheckpointError for a schedule that is none of DeepSpeed, and for a checkpoint without one. */
function schedulerLoader({ directory, scheduler: state }: ZeroCheckpoint, scheduler: object) {
  const parsed = z.object({ last_batch_iteration: z.int().min(-1) }).safeParse(state);
  if (parsed.success && scheduler instanceof DeepSpeedScheduler) {
    const { last_batch_iteration: lastBatchIteration } = parsed.data;
    return (): void => scheduler.loadStateDict({ lastBatchIteration });
  }
  const found = parsed.success
    ? 'the state of a schedule of DeepSpeed, where lrScheduler is another one'
    : state === null
      ? 'no schedule'
      : 'the state of a schedule that is none of DeepSpeed';
  throw new CheckpointError(
    {
      asked: `to load the schedule of ${directory}`,
      found,
      todo: 'Write the schedule that it had as "scheduler" of the configuration, or pass loadLrSchedulerStates: false',
    },
    { directory },
  );
}

/** A scaler that changes continues as the one of DeepSpeed. If that was a fixed one, it begins as the configuration says. */
function scalerLoader({ lossScaler }: ZeroCheckpoint, scaler: optim.LossScaler | undefined) {
  const parsed = z
    .object({
      dynamic: z.literal(true),
      cur_scale: z.number(),
      cur_iter: z.int(),
      last_overflow_iter: z.int(),
      cur_hysteresis: z.int(),
    })
    .safeParse(lossScaler);
  if (!parsed.success || !(scaler instanceof optim.DynamicLossScaler)) return undefined;
  const state = {
    scale: parsed.data.cur_scale,
    iteration: parsed.data.cur_iter,
    lastOverflowIteration: parsed.data.last_overflow_iter,
    hysteresisLeft: parsed.data.cur_hysteresis,
  };
  return (): void => scaler.loadStateDict(state);
}
