import {
  type ModelFolder,
  PickledObject,
  type PickledValue,
  replicated,
  wholeChunk,
} from '@shardwise/core/extend';
import type { checkpoints } from 'shardwise';
import { scatteredSource } from './scattered-tensors.ts';
import { itemsOf, jsonOf, namedValues, valueOf, type ZeroFile } from './zero-file.ts';
import type { ZeroLayout } from './zero-layout.ts';

/** A group of an optimizer of DeepSpeed. */
export interface ZeroGroup {
  readonly params: readonly string[];
  /** The plain settings by their names in PyTorch, such as `weight_decay`. */
  readonly settings: Readonly<Record<string, checkpoints.JsonValue>>;
  /** The number of updates. Null if the optimizer does not count them. */
  readonly steps: number | null;
}

/** What a file of an optimizer has of it. */
export function optimizerOf(file: ZeroFile): PickledValue | undefined {
  return valueOf(file.root, 'optimizer_state_dict');
}

function baseOptimizerOf(file: ZeroFile, { stage }: ZeroLayout): PickledValue | undefined {
  const key = stage === 3 ? 'optimizer_state_dict' : 'base_optimizer_state';
  return valueOf(optimizerOf(file), key);
}

/** The states of each group of a rank: of a state dict of PyTorch or, with elastic_checkpoint, of a list. */
export function statesOf(
  file: ZeroFile,
  layout: ZeroLayout,
): readonly (PickledValue | undefined)[] {
  const base = baseOptimizerOf(file, layout);
  const state = valueOf(base, 'state');
  return itemsOf(base) ?? layout.groups.map((_, group) => valueOf(state, group));
}

/** Reads the groups of the optimizer. Throws CheckpointError for a damaged file. */
export async function groupsOf(
  folder: ModelFolder,
  file: ZeroFile,
  layout: ZeroLayout,
  states: readonly (PickledValue | undefined)[],
): Promise<readonly ZeroGroup[]> {
  const saved = itemsOf(valueOf(baseOptimizerOf(file, layout), 'param_groups')) ?? [];
  const groups: ZeroGroup[] = [];
  for (const [index, names] of layout.groups.entries()) {
    // Stage 3 may divide a group of the optimizer into several, which are the numbers of its params.
    const group = saved.find((each) => itemsOf(valueOf(each, 'params'))?.includes(index));
    const settings = namedValues(group).flatMap(
      ([key, value]): [string, checkpoints.JsonValue][] => {
        const json = key === 'params' || key === 'step' ? undefined : jsonOf(value);
        return json === undefined ? [] : [[key, json]];
      },
    );
    const step = valueOf(states[index], 'step') ?? valueOf(group, 'step');
    groups.push({
      params: [...names.keys()],
      settings: Object.fromEntries(settings),
      steps: await stepsOf(folder, file, step),
    });
  }
  return groups;
}

/** A number of updates, which is a number or a tensor of one. */
async function stepsOf(
  folder: ModelFolder,
  file: ZeroFile,
  value: PickledValue | undefined,
): Promise<number | null> {
  if (typeof value === 'number') return value;
  if (value === undefined || value === null) return null;
  const segment = file.segmentOf(value, 'step');
  if (segment.dtype !== 'f32' || segment.elements !== 1) throw file.refuse('a step that is no f32');
  const tensor = { dtype: segment.dtype, shape: [], segments: [segment] };
  await using reader = scatteredSource(folder, new Map([['step', tensor]])).open();
  const bytes = new Uint8Array(Float32Array.BYTES_PER_ELEMENT);
  await reader.fill('step', wholeChunk([]), bytes, { layout: replicated([]) });
  return new DataView(bytes.buffer).getFloat32(0, true);
}

/** The attributes of an object that are plain data. */
export function attributesOf(
  value: PickledValue | undefined,
): Readonly<Record<string, checkpoints.JsonValue>> {
  const state = value instanceof PickledObject ? value.state : null;
  return Object.fromEntries(
    namedValues(state ?? undefined).flatMap(([key, each]): [string, checkpoints.JsonValue][] => {
      const json = jsonOf(each);
      return json === undefined ? [] : [[key, json]];
    }),
  );
}
