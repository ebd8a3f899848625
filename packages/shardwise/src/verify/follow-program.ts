import { Optimizer, rankState, Tensor } from '@shardwise/core/extend';

/** What hears of the backward passes and updates of a rank's program. */
export interface ProgramFollower {
  /** A backward pass from a loss begins. */
  beforeBackward(loss: Tensor): void;
  /** Makes an update of an optimizer by `update`. Returns whether there was one. */
  step(optimizer: Optimizer, update: () => Promise<boolean>): Promise<boolean>;
}

/**
 * The follower of each rank. Ranks are told apart by their counters, because several of them may be in this thread.
 */
const followers = new Map<object, ProgramFollower>();
let restore = (): void => {};

/** Has `follower` hear of the program of this rank until the returned function is called. A rank has one at a time. */
export function followProgram(follower: ProgramFollower): () => void {
  if (followers.size === 0) restore = wrapMethods();
  const { counters: rank } = rankState;
  followers.set(rank, follower);
  return () => {
    if (followers.delete(rank) && followers.size === 0) restore();
  };
}

/** Hooks in these methods would be loaded by every page, so the methods are wrapped instead. */
function wrapMethods(): () => void {
  const undo = [
    around(Tensor.prototype, 'backward', (backward, tensor, given) => {
      if (tensor instanceof Tensor && given.length === 0) {
        followers.get(rankState.counters)?.beforeBackward(tensor);
      }
      return backward();
    }),
    around(Optimizer.prototype, 'step', (step, optimizer) => {
      const follower = followers.get(rankState.counters);
      if (follower === undefined || !(optimizer instanceof Optimizer)) return step();
      return follower.step(optimizer, async () => (await step()) === true);
    }),
  ];
  return () => undo.forEach((each) => each());
}

/** Puts `body` around a method, for all objects of a class. Returns a function that takes it off. */
function around(
  prototype: object,
  name: string,
  body: (original: () => unknown, self: unknown, given: readonly unknown[]) => unknown,
): () => void {
  const before = Object.getOwnPropertyDescriptor(prototype, name);
  const original: unknown = Reflect.get(prototype, name);
  if (typeof original !== 'function') throw new RangeError(name);
  Object.defineProperty(prototype, name, {
    configurable: true,
    writable: true,
    value(this: unknown, ...given: readonly unknown[]): unknown {
      return body(() => Reflect.apply(original, this, given), this, given);
    },
  });
  return () => {
    if (before === undefined) Reflect.deleteProperty(prototype, name);
    else Object.defineProperty(prototype, name, before);
  };
}
