import {
  type DimRange,
  CheckpointError,
  checkOptions,
  currentSession,
  formatShape,
  type HostArray,
  type HostArrays,
  isHeldAt,
  type Module,
  modelTensors,
  option,
  type OptionRules,
  ownPlace,
  requireModule,
  requireNoMore,
  sameShape,
  type SavedType,
  stateMismatch,
  stepName,
  type Tensor,
} from '@shardwise/core/extend';
import { requireCheckpoint, type Checkpoint } from './open-checkpoint.ts';
import { stepType } from '../format/optimizer-chunks.ts';
import { readHeld } from './read-held.ts';
import type { JsonValue, StoredGroup, StoredTensor } from '../format/index-file.ts';
import { describeVarying, placesToLoad, shapeOf } from '../format/varying.ts';

/** What an optimizer must have so that its states can be loaded, whatever its settings are. */
export interface LoadedOptimizer {
  readonly paramGroups: readonly { readonly params: readonly Tensor[] }[];
  savedType(parameter: Tensor, name: string): SavedType;
  restore(saved: ReadonlyMap<Tensor, HostArrays>, settings: readonly object[]): void;
}

const TODO =
  'Make the optimizer of the same parameters, with the groups that it had when it was saved, on as many ranks where each has states of its own';

const optimizerRules: OptionRules<{ readonly optimizer: LoadedOptimizer }> = {
  optimizer: option.required({
    fits: (value): value is LoadedOptimizer =>
      typeof value === 'object' && value !== null && 'paramGroups' in value && 'restore' in value,
    expected: 'an optimizer',
  }),
};

/** A saved tensor of a state, and what this rank reads of it. */
interface Slot {
  readonly stored: StoredTensor;
  readonly type: Pick<SavedType, 'shape' | 'layout' | 'wholeShape'>;
  readonly places: readonly (readonly DimRange[])[];
}

/**
 * Overwrites the states and settings of an optimizer of the model's parameters. Parameters are found by name,
 * whatever strategy is applied to the model and whatever the order of the groups is. Each rank reads the parts
 * that it keeps. Throws CheckpointError for a damaged file, and, before anything changes, a CheckpointError
 * that lists missing, unexpected and differing parameters together.
 */
export async function loadOptimizer(
  checkpoint: Checkpoint,
  model: Module,
  optimizer: LoadedOptimizer,
  ...more: readonly never[]
): Promise<void> {
  requireCheckpoint('loadOptimizer', checkpoint);
  requireModule('loadOptimizer', model);
  checkOptions('loadOptimizer', { optimizer }, optimizerRules);
  requireNoMore('loadOptimizer', 3, more);
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
  const parameters = paramGroups.flatMap(({ params }) => params);
  const slots = new Map(
    parameters.map((parameter) => {
      const name = names.get(parameter) ?? '';
      if (!savedGroups.has(name)) missing.push(name === '' ? describe(parameter) : name);
      const found = new Map<string, Slot>();
      for (const full of statesOf.get(name) ?? []) {
        const stored = checkpoint.optimizer.get(full);
        if (stored === undefined) continue;
        const state = full.slice(name.length + 1);
        const slot = slotOf(stored, savedTypeOf(optimizer, parameter, state));
        if (typeof slot === 'string') different.push(`${full} (${slot})`);
        else found.set(state, slot);
      }
      return [parameter, found] as const;
    }),
  );
  const own = new Set(parameters.map((parameter) => names.get(parameter) ?? ''));
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
  const saved = new Map<Tensor, HostArrays>();
  for (const [parameter, states] of slots) {
    if (!isHeldAt(parameter.part.layout, ownPlace)) continue;
    const arrays: Record<string, HostArray> = {};
    for (const [state, { stored, type, places }] of states) {
      arrays[state] = await readHeld(files, stored, type, places);
    }
    if (states.size > 0) saved.set(parameter, arrays);
  }
  optimizer.restore(saved, settings);
  // The optimizer computes some states from the saved ones, because it keeps them in another form.
  await currentSession().realize([]);
}

function savedTypeOf(optimizer: LoadedOptimizer, parameter: Tensor, state: string): SavedType {
  if (state !== stepName) return optimizer.savedType(parameter, state);
  return stepType(parameter);
}

/** Returns a text that says why this rank can't read the tensor, if it can't. */
function slotOf(stored: StoredTensor, type: SavedType): Slot | string {
  const { wholeShape: shape } = type;
  const found = shapeOf(stored);
  if (!sameShape(found, shape)) return `shape ${formatShape(found)}, not ${formatShape(shape)}`;
  if (stored.dtype !== type.dtype) return `${stored.dtype}, not ${type.dtype}`;
  const places = placesToLoad(stored, type);
  return places === undefined ? describeVarying(stored) : { stored, type, places };
}

/** Returns the names under which the checkpoint has the model's parameters. */
function storedNames({ aliases }: Checkpoint, model: Module): ReadonlyMap<Tensor, string> {
  return new Map(
    modelTensors(model).map(({ names, tensor }) => {
      const [name] = names;
      const alias = names.find((each) => aliases.has(each));
      return [tensor, aliases.get(alias ?? name) ?? name];
    }),
  );
}

/** Returns the settings with which all parameters of a group were saved. Throws CheckpointError if they differ. */
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
