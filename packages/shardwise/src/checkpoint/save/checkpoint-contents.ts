import {
  checkOptions,
  ConfigError,
  type HeldChunk,
  type HostArrays,
  Module,
  option,
  type OptionRules,
  type ProcessGroup,
  wholeChunk,
} from '@shardwise/core/extend';
import { requireJson, requireStatefuls } from '../format/check-arguments.ts';
import { isPlainObject, splitState } from '../format/state-tree.ts';
import { aliasesOf, chunksOfBuffers, chunksOfModel } from '../format/model-chunks.ts';
import {
  chunksOfOptimizer,
  optimizerGroups,
  type SavedOptimizer,
} from '../format/optimizer-chunks.ts';
import type {
  CheckpointState,
  JsonValue,
  SectionName,
  StatePath,
  StoredState,
} from '../format/index-file.ts';
import type { Statefuls } from '../format/stateful.ts';

/** The data that a run needs to continue. */
export interface CheckpointContents {
  /** The number of updates so far. */
  readonly step: number;
  /** The model, on every rank, with any strategy. It may also be plain arrays; then those of rank 0 are written. */
  readonly model: Module | HostArrays;
  /** The optimizer of the parameters of `model`. */
  readonly optimizer?: SavedOptimizer;
  /**
   * Other objects that remember something between updates, under names that the script chooses: a loss scaler,
   * a schedule, a communication hook, or any object with stateDict and loadStateDict. The states of each rank
   * are saved.
   */
  readonly states?: Statefuls;
  /** Other data of the script. That of rank 0 is saved. */
  readonly extra?: JsonValue;
  /** Data that differs from rank to rank, such as the states of random generators. */
  readonly rankExtra?: JsonValue;
}

const contentsRules: OptionRules<CheckpointContents> = {
  step: option.required(option.number),
  model: option.required({
    fits: (value): value is Module | HostArrays => value instanceof Module || isPlainObject(value),
    expected: 'a module, or arrays by name',
  }),
  optimizer: option.object('an optimizer'),
  states: option.object('states by name'),
  extra: option.checkedLater(),
  rankExtra: option.checkedLater(),
};

/**
 * Throws ConfigError for unknown fields, and CheckpointError for values that are no plain data, because neither would
 * be saved.
 */
export function checkContents(contents: CheckpointContents): void {
  checkOptions('saveCheckpoint', contents, contentsRules);
  const { states = {}, extra = null, rankExtra = null } = contents;
  requireStatefuls('saveCheckpoint', states);
  requireJson('extra', extra);
  requireJson('rankExtra', rankExtra);
}

/** What one rank contributes to a checkpoint. */
export interface RankContents {
  readonly heldChunks: Readonly<Record<SectionName, readonly HeldChunk[]>>;
  /** The model's buffers on this rank, of which only those of rank 0 are saved. */
  readonly buffers: readonly HeldChunk[];
  /** The other names of shared parameters. Those of rank 0 are written. */
  readonly aliases: CheckpointState['model']['aliases'];
  readonly groups: CheckpointState['optimizer']['groups'];
  readonly extra: JsonValue;
  readonly rankExtra: JsonValue;
  readonly states: Readonly<Record<string, StoredState>>;
}

/**
 * Collects what this rank saves. Throws CheckpointError for an optimizer of another model, and for a state that cannot
 * be written.
 */
export async function rankContentsOf(
  contents: CheckpointContents,
  { rank }: ProcessGroup,
): Promise<RankContents> {
  const { model, optimizer, extra = null, rankExtra = null } = contents;
  const { states, heldChunks } = await rankStates(contents.states ?? {}, rank);
  const saved = optimizer === undefined ? undefined : { optimizer, model: moduleOf(model) };
  return {
    heldChunks: {
      model: chunksOfModel(model, rank),
      optimizer: saved === undefined ? [] : chunksOfOptimizer(saved.model, saved.optimizer),
      states: heldChunks,
    },
    buffers: chunksOfBuffers(model),
    aliases: [...aliasesOf(model)],
    groups: saved === undefined ? [] : optimizerGroups(saved.model, saved.optimizer),
    extra,
    rankExtra,
    states,
  };
}

function moduleOf(model: Module | HostArrays): Module {
  if (model instanceof Module) return model;
  throw new ConfigError({
    asked: 'Saving an optimizer',
    found: 'a model of plain arrays, which names no parameters',
    todo: 'Pass the model itself beside its optimizer',
  });
}

/** Throws ConfigError if the step is not a safe integer of 0 or more. */
export function checkStep(step: number, directory: string): void {
  if (Number.isSafeInteger(step) && step >= 0) return;
  throw new ConfigError(
    {
      asked: `Saving a checkpoint to ${directory}`,
      found: `step is ${step}`,
      todo: 'Give the number of updates done so far',
    },
    { step },
  );
}

/** What a rank saves of its states. */
interface RankStates {
  readonly states: Readonly<Record<string, StoredState>>;
  readonly heldChunks: readonly HeldChunk[];
}

/** Collects the states of this rank. Throws CheckpointError for a state that cannot be written. */
async function rankStates(statefuls: Statefuls, rank: number): Promise<RankStates> {
  const states: Record<string, StoredState> = {};
  const heldChunks: HeldChunk[] = [];
  for (const [owner, stateful] of Object.entries(statefuls)) {
    const { value, tensors } = splitState(owner, await stateful.stateDict());
    for (const { path, array } of tensors) {
      const { dtype, shape, bytes } = array;
      const name = tensorName(rank, owner, path);
      heldChunks.push({ name, dtype, shape, ...wholeChunk(shape), read: async () => bytes });
    }
    const names = tensors.map(({ path }) => ({ path, name: tensorName(rank, owner, path) }));
    states[owner] = { value, tensors: names };
  }
  return { states, heldChunks };
}

/** Returns the name of a tensor of a state. Its components are encoded, so that names with a slash stay distinct. */
function tensorName(rank: number, owner: string, path: StatePath): string {
  return [`rank-${rank}`, owner, ...path].map(encodeURIComponent).join('/');
}
