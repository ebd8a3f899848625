import { TensorStateError } from '@shardwise/core/extend';
import type { GradientGroup } from '../parts/gradient-group.ts';
import type { ShardedUnit } from './sharded-unit.ts';

/** Units that a backward pass gathers again, and how many of them ahead of their use. */
interface GatheredAgain {
  /** In the order in which the backward pass comes to them. */
  readonly units: readonly ShardedUnit[];
  readonly prefetch: number;
}

type Message =
  | { readonly kind: 'gather'; readonly unit: ShardedUnit; readonly position: number }
  | { readonly kind: 'reduce'; readonly group: GradientGroup };

/**
 * The messages of a backward pass in one order, which is the same on all ranks whatever parts of the model they use. A
 * message is sent when all before it have been sent and this rank has what it sends, and at the end of the pass at the
 * latest. A unit is gathered when the pass comes to it, or to one that follows.
 */
export class BackwardOrder {
  readonly #groups: () => Iterable<GradientGroup>;
  #again: GatheredAgain = { units: [], prefetch: 0 };
  #messages: readonly Message[] | null = null;
  /** The number of messages that the present pass has sent. Null outside of a pass. */
  #sent: number | null = null;
  /** The position of the last unit that may be gathered. */
  #limit = -1;

  /** `groups` is called in the first pass. */
  constructor(groups: () => Iterable<GradientGroup>) {
    this.#groups = groups;
  }

  /** Says which units backward passes gather again. Call it before the first pass. */
  gatherAgain(again: GatheredAgain): void {
    this.#again = again;
  }

  begin(): void {
    this.#sent = 0;
    this.#limit = -1;
  }

  /**
   * Gathers a unit to which the backward pass has come, and those ahead. Returns false if no gradients of parameters are
   * under way. Throws TensorStateError if gradients must be reduced before that this rank does not have yet.
   */
  reach(unit: ShardedUnit): boolean {
    if (this.#sent === null) return false;
    const { units, prefetch } = this.#again;
    const position = units.indexOf(unit);
    this.#limit = Math.max(this.#limit, position + prefetch);
    this.advance();
    const next = this.#all[this.#sent];
    const isGathered = !this.#all
      .slice(this.#sent)
      .some((message) => message.kind === 'gather' && message.unit === unit);
    if (isGathered || next?.kind !== 'reduce') return true;
    throw outOfOrder(unit, next.group);
  }

  /** Sends the next messages, up to the first for which something is missing. */
  advance(): void {
    if (this.#sent === null) return;
    for (let next = this.#all[this.#sent]; next !== undefined; next = this.#all[++this.#sent]) {
      if (next.kind === 'gather') {
        if (next.position > this.#limit) return;
        next.unit.collectAgainForAll();
      } else {
        if (!next.group.isComplete) return;
        next.group.sendAll();
      }
    }
  }

  /** Ends a pass. The groups are complete. */
  end(completed: boolean): void {
    this.#limit = Infinity;
    if (completed) this.advance();
    this.#sent = null;
  }

  get #all(): readonly Message[] {
    return (this.#messages ??= inOrder([...this.#groups()], this.#again));
  }
}

/**
 * A group is reduced when its unit is done and as many units are gathered ahead of the next one as may be. The groups of
 * units that are not gathered again, and that of the whole model, come last.
 */
function inOrder(
  groups: readonly GradientGroup[],
  { units, prefetch }: GatheredAgain,
): readonly Message[] {
  const positionOf = ({ parts }: GradientGroup): number => {
    const positions = parts.map((part) =>
      units.findIndex(
        ({ name, parameters }) =>
          name !== '' && parameters.some((each) => each.reader.sharded === part),
      ),
    );
    return positions.includes(-1) ? Infinity : Math.max(...positions);
  };
  const groupsAt = Map.groupBy(groups, positionOf);
  const reduceAt = (position: number): Message[] =>
    (groupsAt.get(position) ?? []).map((group) => ({ kind: 'reduce', group }));
  const gathers = units.flatMap((unit, position): Message[] => [
    ...reduceAt(position - prefetch - 1),
    { kind: 'gather', unit, position },
  ]);
  const first = Math.max(0, units.length - prefetch - 1);
  const rest = units.slice(first).flatMap((_, index) => reduceAt(first + index));
  return [...gathers, ...rest, ...reduceAt(Infinity)];
}

function outOfOrder({ name }: ShardedUnit, group: GradientGroup): TensorStateError {
  const names = group.parts.map((part) => part.name);
  return new TensorStateError(
    {
      asked: `to gather the unit '${name}' in a backward pass with findUnusedParameters`,
      found: `gradients of ${names.join(', ')} are not complete, and all ranks reduce them before`,
      todo: 'Run units in the order in which the model declares them, each before the next one begins, or keep their parameters between forward and backward: fsdp({ reshardAfterForward: false })',
    },
    { unit: name, parameters: names },
  );
}
