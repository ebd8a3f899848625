import {
  checkOptions,
  ConfigError,
  currentSession,
  Module,
  option,
  type OptionRules,
  type ProcessGroup,
  TensorStateError,
} from '@shardwise/core/extend';
import { loadCheckpoint } from '../../checkpoint/load/load-checkpoint.ts';
import { requireStatefuls } from '../../checkpoint/format/check-arguments.ts';
import { checkStep } from '../../checkpoint/save/checkpoint-contents.ts';
import type { RankContext } from '../rank-context.ts';
import { type Agreed, type Held, requireEqualStates } from './agree-on-state.ts';
import { type CommittedState, commitState } from './committed-state.ts';
import { findBound } from './find-bound.ts';
import { MembershipChange } from './member-link.ts';
import { unpackState } from './packed-state.ts';
import { loadTraining, type Training } from './training.ts';

export type { Training } from './training.ts';

/** A rank of a run whose ranks go on if one is lost, as `survive` gives it to its body. */
export interface SurvivorContext extends RankContext {
  /**
   * Gives the training the state that the ranks go on with: that of the last commit, otherwise that of the checkpoint
   * that the run continues from. Otherwise the training stays as it is. Returns the number of updates that the state
   * has. Call it once, on all ranks, before the first update. Throws CheckpointError if the state is of another training.
   */
  resume(training: Training): Promise<number>;
  /**
   * Notes that update `step` is done: what `resume` was given is copied to host memory, and a rank that is lost later
   * costs nothing of it. Call it on all ranks after the update, and after whatever else changes the states. A rank that
   * comes joins here. It is a collective of a small all-reduce.
   */
  commit(step: number): Promise<void>;
}

const trainingRules: OptionRules<Training> = {
  model: option.required({
    fits: (value): value is Module => value instanceof Module,
    expected: 'a module, which parallelize() was given',
  }),
  optimizer: option.object('an optimizer'),
  states: option.object('states by name'),
};

/** What a survivor needs of its surroundings. */
export interface SurvivorParts {
  readonly context: RankContext;
  /** The membership of the ranks. */
  readonly epoch: number;
  /** The states that the ranks have agreed on, of which they go on with one if a commit has made it. */
  readonly agreed: Agreed;
  /** The number of ranks that have the state together. */
  readonly replicaSize: number;
  /** Whether other ranks are to go on from here. Undefined if the ranks stay the same until all of them end. */
  readonly hasChanged: (() => boolean) | undefined;
  /** Called when the first update is committed. */
  readonly onCommitted: () => void;
  /** Called once if the ranks cannot go on without each other. */
  readonly onBound: (reason: string) => void;
}

/** What a rank of one membership has committed. */
export class Survivor {
  readonly context: SurvivorContext;
  readonly #parts: SurvivorParts;
  #training: Training | undefined;
  #held: Held;
  #step = -1;
  #isChecked = false;
  #hasCommitted = false;
  #isBound = false;

  constructor(parts: SurvivorParts) {
    this.#parts = parts;
    this.#held = parts.agreed;
    const own = {
      resume: (training: Training) => this.#resume(training),
      commit: (step: number) => this.#commit(step),
    };
    // The context has getters, which a copy would read once.
    this.context = Object.assign(Object.create(parts.context), own);
  }

  /** The latest states that are whole on this rank. */
  get held(): Held {
    return this.#held;
  }

  async #resume(training: Training): Promise<number> {
    checkOptions('resume', training, trainingRules);
    requireStatefuls('resume', training.states ?? {});
    if (this.#training !== undefined) throw orderError('resume() a second time', 'Call it once');
    this.#training = training;
    const { agreed, context } = this.#parts;
    const { taken } = agreed;
    if (taken !== undefined) this.#step = await unpackState(await taken.pack(), training);
    else if (context.resumeDirectory !== undefined) {
      const checkpoint = await loadCheckpoint(context.resumeDirectory);
      await loadTraining(checkpoint, training);
      this.#step = checkpoint.step;
    } else this.#step = 0;
    return this.#step;
  }

  async #commit(step: number): Promise<void> {
    const training = this.#training;
    if (training === undefined) {
      throw orderError('commit() before resume()', 'Call resume({ model, optimizer }) first');
    }
    const { context, hasChanged, epoch } = this.#parts;
    checkStep(step, 'the memory of the ranks');
    if (step <= this.#step) {
      throw orderError(`commit(${step}) after ${this.#step}`, 'Count updates upwards');
    }
    this.#step = step;
    if (hasChanged === undefined || this.#isBound) return;
    await currentSession().realize([]);
    const committed = await commitState(training, step, epoch);
    if (!this.#isChecked) await this.#check(committed);
    if (this.#isBound) return;
    const { states, settled } = this.#held;
    this.#held = { states: [committed, ...states.slice(0, 1)], settled };
    const isOver = await isSaidByAny(context.group, hasChanged());
    // Each rank has the state now, so none goes back to the one before.
    this.#held = { states: [committed], settled: step };
    if (!this.#hasCommitted) this.#parts.onCommitted();
    this.#hasCommitted = true;
    if (isOver) throw new MembershipChange();
  }

  /** Looks once whether each replica has the whole state, and the same one. It is a collective. */
  async #check(committed: CommittedState): Promise<void> {
    this.#isChecked = true;
    const { context, replicaSize } = this.#parts;
    const { group } = context;
    const reason = await findBound(group, committed, replicaSize);
    if (reason === undefined) {
      try {
        await requireEqualStates(group, committed, replicaSize);
      } catch (error) {
        // No rank may go on with one of the states when the first one has ended.
        if (error instanceof TensorStateError) this.#parts.onBound('their states differ');
        throw error;
      }
      return;
    }
    this.#isBound = true;
    this.#parts.onBound(reason);
  }
}

/** Whether any rank says yes. It is a collective, so that all ranks go over after the same commit. */
async function isSaidByAny(group: ProcessGroup, said: boolean): Promise<boolean> {
  const bytes = Uint8Array.of(said ? 1 : 0);
  await group.allReduce({ bytes, dtype: 'u8' }, 'max');
  return bytes[0] === 1;
}

function orderError(asked: string, todo: string): ConfigError {
  return new ConfigError({
    asked,
    found:
      'survive() gives a body one training, which it resumes once and commits after each update',
    todo,
  });
}
