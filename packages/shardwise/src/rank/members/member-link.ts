import { ShardwiseError, TensorStateError } from '@shardwise/core/extend';
import { reasonText } from '@shardwise/core/spec';
import { failureKind } from '../../launcher/failure-kind.ts';
import type { LaunchEnd } from '../../launcher/launch.ts';
import { MAX_CHARACTERS, type MemberMessage } from '../../launcher/ranks/member-message.ts';
import type { Membership } from '../../launcher/ranks/rank-data.ts';
import { abortReason } from '../launched-host.ts';
import type { LauncherLink } from '../launcher-link.ts';

/**
 * How long a rank whose calls were ended waits to hear of another membership. The launcher learns that a process is gone
 * when its connections close, and that it is stopped after a second and a half.
 */
const HEARING_MS = 10_000;
/** Longer than any wait. A timer of this length keeps a rank alive that waits for nothing but its launcher. */
const LONG_MS = 2 ** 30;

/** What a body throws that has to go over to another membership, because a commit said so. */
export class MembershipChange extends Error {
  override readonly name: string = 'MembershipChange';

  constructor() {
    super(
      'Other ranks go on from here: let this error pass, so that survive() runs the body again',
    );
  }
}

/** What a rank hears from its launcher about who trains with it. */
export class MemberLink {
  /** Settles when the user has asked for an end. */
  readonly stopped: Promise<void>;
  readonly #link: LauncherLink;
  readonly #known: Membership[] = [];
  readonly #listeners = new Set<() => void>();
  #aborted: Error | undefined;

  /** `replicaSize`: undefined if the script does not go on without a rank that is lost. */
  constructor(link: LauncherLink, replicaSize: number | undefined) {
    this.#link = link;
    const stopped = Promise.withResolvers<void>();
    this.stopped = stopped.promise;
    link.listen((order) => {
      if (order.kind === 'stop') stopped.resolve();
      else if (order.kind === 'abort') this.#aborted ??= abortReason(order satisfies LaunchEnd);
      else this.#known.push(order);
      for (const listener of this.#listeners) listener();
    });
    this.send({ kind: 'ready', replicaSize: replicaSize ?? null });
  }

  send(message: MemberMessage): void {
    this.#link.send(message);
  }

  /** Whether the launcher has named another membership after `epoch`. */
  hasChanged(epoch: number): boolean {
    return this.#known.some((known) => known.epoch > epoch);
  }

  /** Waits for the latest membership after `epoch`. Rejects if the launcher ends the ranks. */
  async after(epoch: number): Promise<Membership> {
    await this.#until(() => this.hasChanged(epoch) || this.#aborted !== undefined);
    const latest = this.#known.at(-1);
    if (this.#aborted !== undefined) throw this.#aborted;
    if (latest === undefined) throw new RangeError('no membership');
    return latest;
  }

  /** Returns a signal that calls of the membership `epoch` cannot end. Call `stop` when it is over. */
  watch(epoch: number): { readonly signal: AbortSignal; readonly stop: () => void } {
    const controller = new AbortController();
    const look = (): void => {
      const lost = this.#lostAfter(epoch);
      const reason =
        this.#aborted ??
        (lost === undefined ? undefined : abortReason({ rank: undefined, reason: lost }));
      if (reason !== undefined) controller.abort(reason);
    };
    this.#listeners.add(look);
    look();
    return { signal: controller.signal, stop: () => this.#listeners.delete(look) };
  }

  /**
   * Whether this rank goes on after something threw in the membership `epoch`. It does if that is what comes of a rank
   * that is gone, and the launcher has said who goes on. While ranks join each other (`isJoining`), any error may come of
   * that. The launcher is told of those of connections: if the other rank is still there, all of them make new ones. What
   * is wrong with this rank alone, such as its device, ends it.
   */
  async goesOnAfter(epoch: number, error: unknown, isJoining: boolean): Promise<boolean> {
    if (error instanceof MembershipChange) return true;
    if (this.#aborted === undefined && this.#lostAfter(epoch) === undefined) {
      const mayBe = isJoining && !(error instanceof TensorStateError);
      if (!mayBe && !isOfLostRank(error)) return false;
      const isKnown = (): boolean => this.#aborted !== undefined || this.hasChanged(epoch);
      if (!isKnown() && mayBeOfConnection(error)) {
        this.send({ kind: 'broken', epoch, ...unreachedIn(error) });
      }
      await this.#until(isKnown, HEARING_MS);
    }
    return this.#aborted === undefined && this.hasChanged(epoch);
  }

  #lostAfter(epoch: number): string | undefined {
    return this.#known.find((known) => known.epoch > epoch && known.lost !== undefined)?.lost;
  }

  async #until(holds: () => boolean, limitMs: number = LONG_MS): Promise<void> {
    if (holds()) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const look = (): void => {
      if (holds()) resolve();
    };
    this.#listeners.add(look);
    const timer = setTimeout(resolve, limitMs);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      this.#listeners.delete(look);
    }
  }
}

const MAX_CAUSES = 8;

/** An error and its causes. */
function* causesOf(error: unknown): Generator<Error> {
  let current = error;
  for (let depth = 0; current instanceof Error && depth < MAX_CAUSES; depth += 1) {
    yield current;
    current = current.cause;
  }
}

/** Whether an error, or one of its causes, is that of calls that were ended because a rank is gone. */
export function isOfLostRank(error: unknown): boolean {
  return causesOf(error).some(
    (cause) =>
      ShardwiseError.isInstance(cause) &&
      (cause.code === 'COLLECTIVE_ABORTED' || cause.code === 'COLLECTIVE'),
  );
}

/** Whether an error may be one of connections. Those of a device, of options and of the script come again with new ones. */
function mayBeOfConnection(error: unknown): boolean {
  if (isOfLostRank(error)) return true;
  if (ShardwiseError.isInstance(error)) return error.code.startsWith('COLLECTIVE');
  return failureKind(error) === undefined;
}

/** The ranks that could not be reached, as an error says, and why. */
function unreachedIn(error: unknown): {
  readonly ranks: readonly number[];
  readonly reason: string;
} {
  for (const cause of causesOf(error)) {
    if (!ShardwiseError.isInstance(cause)) continue;
    const { abortedBy, missing, reason } = cause.fields;
    const named = Array.isArray(missing) ? missing : [abortedBy];
    const ranks = named.filter((rank): rank is number => typeof rank === 'number');
    if (ranks.length === 0) continue;
    const text = typeof reason === 'string' ? reason : cause.message;
    return { ranks, reason: text.slice(0, MAX_CHARACTERS) };
  }
  return { ranks: [], reason: reasonText(error).slice(0, MAX_CHARACTERS) };
}
