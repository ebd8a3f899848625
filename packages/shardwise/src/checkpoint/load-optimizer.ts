import {
  CheckpointError,
  formatShape,
  type HostArray,
  type Module,
  type OptimizerSettings,
  type OptimizerStateDict,
  type ParamGroup,
  sameShape,
  stateMismatch,
  type Tensor,
} from '@shardwise/core';
import type { Checkpoint } from './load-checkpoint.ts';
import { readHeld } from './load-model.ts';
import { modelTensors } from './model-tensors.ts';
import { STEP } from './optimizer-holdings.ts';
import type { JsonValue, StoredGroup, StoredTensor } from './state-file.ts';

/** What an optimizer must have so that its states can be loaded, whatever its settings are. */
export interface LoadedOptimizer {
  readonly paramGroups: readonly ParamGroup<OptimizerSettings>[];
  loadStateDict(dict: OptimizerStateDict<OptimizerSettings>): void;
}

const TODO =
  'Make the optimizer of the same parameters, with the groups that it had when it was saved';

interface Slot {
  /** Of the parameter, in the checkpoint. */
  readonly name: string;
  readonly parameter: Tensor;
  readonly states: readonly (readonly [state: string, stored: StoredTensor])[];
}

/**
 * Overwrites the states and settings of an optimizer of the model's parameters, which are found by
 * name: whatever strategy has been applied to the model, in whatever order the groups are. Each
 * rank reads the parts that it keeps. Throws CheckpointError, before anything changes, that lists
 * missing, unexpected and differing parameters together, and for a damaged file.
 */
export async function loadOptimizer(
  checkpoint: Checkpoint,
  model: Module,
  optimizer: LoadedOptimizer,
): Promise<void> {
  const { paramGroups } = optimizer;
  const names = storedNames(checkpoint, model);
  const savedGroups = new Map(
    checkpoint.optimizerGroups.flatMap((group) => group.params.map((name) => [name, group])),
  );
  const statesOf = Map.groupBy(checkpoint.optimizer.names, (name) =>
    name.slice(0, name.lastIndexOf('.')),
  );
  const missing: string[] = [];
  const different: string[] = [];
  const slots = paramGroups.flatMap(({ params }) =>
    params.map((parameter): Slot => {
      const name = names.get(parameter) ?? '';
      if (!savedGroups.has(name)) missing.push(name === '' ? describe(parameter) : name);
      const { extent } = parameter.part;
      const states = (statesOf.get(name) ?? []).flatMap((full) => {
        const stored = checkpoint.optimizer.get(full);
        return stored === undefined ? [] : [[full.slice(name.length + 1), stored] as const];
      });
      for (const [state, { shape }] of states) {
        if (state === STEP || sameShape(shape, extent.shape)) continue;
        different.push(
          `${name}.${state} (shape ${formatShape(shape)}, not ${formatShape(extent.shape)})`,
        );
      }
      return { name, parameter, states };
    }),
  );
  const own = new Set(slots.map(({ name }) => name));
  const unexpected = [...savedGroups.keys()].filter((name) => !own.has(name));
  if (missing.length + unexpected.length + different.length > 0) {
    const asked = `to load ${checkpoint.directory} into an optimizer of ${own.size} parameters`;
    throw stateMismatch(asked, { missing, unexpected, different }, TODO);
  }
  const settings = paramGroups.map((group, index) =>
    settingsOf(
      index,
      group,
      new Set(group.params.map((each) => savedGroups.get(names.get(each) ?? ''))),
    ),
  );

  await using files = checkpoint.optimizer.open();
  const state: Record<string, Record<string, HostArray>> = {};
  for (const [index, { states, parameter }] of slots.entries()) {
    const arrays: Record<string, HostArray> = {};
    for (const [key, stored] of states) {
      arrays[key] =
        key === STEP ? await files.read(stored) : await readHeld(files, stored, parameter.part);
    }
    if (states.length > 0) state[index] = arrays;
  }
  let first = 0;
  optimizer.loadStateDict({
    state,
    paramGroups: paramGroups.map((group, index) => ({
      ...group,
      ...settings[index],
      params: group.params.map(() => first++),
    })),
  });
}

/** Under which names the checkpoint has the model's parameters. */
function storedNames({ aliases }: Checkpoint, model: Module): ReadonlyMap<Tensor, string> {
  return new Map(
    modelTensors(model).map(({ names, tensor }) => {
      const [name] = names;
      const alias = names.find((each) => aliases.has(each));
      return [tensor, aliases.get(alias ?? name) ?? name];
    }),
  );
}

/** Those that all parameters of a group were saved with. */
function settingsOf(
  index: number,
  current: object,
  groups: ReadonlySet<StoredGroup | undefined>,
): Readonly<Record<string, JsonValue>> {
  const [settings = {}, ...others] = [...groups].map((group) => group?.settings ?? {});
  const text = JSON.stringify(settings);
  const wrong = Object.entries(settings).find(([key, value]) => {
    const own: unknown = Reflect.get(current, key);
    return own !== undefined && kindOf(own) !== kindOf(value);
  });
  if (wrong === undefined && others.every((other) => JSON.stringify(other) === text)) {
    return settings;
  }
  throw new CheckpointError(
    {
      asked: `to load the settings of parameter group ${index}`,
      found:
        wrong === undefined
          ? `its parameters were saved in ${groups.size} groups of other settings`
          : `a ${wrong[0]} that is a ${kindOf(wrong[1])}, not a ${kindOf(Reflect.get(current, wrong[0]))}`,
      todo: TODO,
    },
    { group: index },
  );
}

function kindOf(value: unknown): string {
  return Array.isArray(value) ? `list of ${value.length}` : typeof value;
}

function describe(parameter: Tensor): string {
  return `a parameter of shape ${formatShape(parameter.shape)} that the model does not have`;
}
