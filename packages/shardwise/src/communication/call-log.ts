import type { ObservedCall } from '@shardwise/collectives';

/** A call that has been issued. Times are in milliseconds on one clock. */
export interface LoggedCall extends Pick<ObservedCall, 'operation' | 'group' | 'peer'> {
  /** The bytes of the message, as `messageBytes` counts them. */
  readonly bytes: number;
  readonly issuedMs: number;
  /** When all ranks had arrived. Undefined for messages, and while the rank waits. */
  startedMs: number | undefined;
  /** When the call ended. Undefined while it is open. */
  endedMs: number | undefined;
  /** When the collective before it in its group ended. Undefined if there was none, and while the call is open. */
  beforeMs: number | undefined;
}

/** A call that has ended, and what its time was spent on. */
export interface FinishedCall {
  readonly call: LoggedCall;
  /** The time from the issue to the end. */
  readonly latencyMs: number;
  /** The part of the latency for which ranks had not come, or, for a message, had not sent it. */
  readonly waitingMs: number;
  /** The part of the waiting time in which this rank computed nothing. */
  readonly idleMs: number;
  /** The part of the latency in which the data moved. Waiting, and calls of the group before this one, are left out. */
  readonly movingMs: number;
  /** The part of the latency in which this rank computed. */
  readonly hiddenMs: number;
}

/** A stretch of time on the clock of the calls. */
interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** A call that is open for longer than so many stretches counts as hidden in the latest of them only. */
const MAX_STRETCHES = 4096;

/**
 * Finds what the time of calls was spent on. What the rank computed in the meantime is known only later, so a call is
 * finished when the rank computes something after the end of the call, or when the log is asked.
 */
export class CallLog {
  readonly #onFinished: (finished: FinishedCall) => void;
  /** Calls that have been issued and are not finished. */
  readonly #calls = new Set<LoggedCall>();
  /** When this rank computed, in ascending order. Stretches before the oldest of the calls are forgotten. */
  #computed: Stretch[] = [];
  /** For each group, the end of its last collective. */
  readonly #endOf = new Map<LoggedCall['group'], number>();

  constructor(onFinished: (finished: FinishedCall) => void) {
    this.#onFinished = onFinished;
  }

  issue(call: Omit<LoggedCall, 'startedMs' | 'endedMs' | 'beforeMs'>): LoggedCall {
    const open = { startedMs: undefined, endedMs: undefined, beforeMs: undefined };
    const issued: LoggedCall = { ...call, ...open };
    this.#calls.add(issued);
    return issued;
  }

  /** Ends a call. A call that has failed is forgotten. */
  end(call: LoggedCall, endedMs: number, succeeded: boolean): void {
    if (!succeeded) {
      this.#calls.delete(call);
      return;
    }
    call.endedMs = endedMs;
    if (call.peer !== undefined) return;
    call.beforeMs = this.#endOf.get(call.group);
    this.#endOf.set(call.group, endedMs);
  }

  /** Notes that this rank computed. Stretches come in the order of time, and after they are over. */
  compute(from: number, to: number): void {
    if (this.#calls.size === 0) return;
    this.#computed.push({ from, to });
    if (this.#computed.length > MAX_STRETCHES) this.#computed.splice(0, MAX_STRETCHES / 2);
    this.finish(from);
    const oldest = this.#calls.values().next().value?.issuedMs ?? Infinity;
    if ((this.#computed[0]?.to ?? Infinity) > oldest) return;
    this.#computed = this.#computed.filter((each) => each.to > oldest);
  }

  /** Finishes the calls that have ended until a time. Default: all that have ended. */
  finish(until: number = Infinity): void {
    for (const call of this.#calls) {
      if (call.endedMs === undefined || call.endedMs > until) continue;
      this.#calls.delete(call);
      this.#onFinished(this.#account(call, call.endedMs));
    }
  }

  #account(call: LoggedCall, to: number): FinishedCall {
    const from = call.issuedMs;
    const latencyMs = to - from;
    const hiddenMs = this.#computedIn({ from, to });
    if (call.peer !== undefined) {
      const isAwaited = call.operation === 'recv';
      const waitingMs = isAwaited ? latencyMs : 0;
      const idleMs = isAwaited ? latencyMs - hiddenMs : 0;
      return { call, latencyMs, waitingMs, idleMs, movingMs: latencyMs, hiddenMs };
    }
    // A call that was issued early waits first for those before it, whose data is still moving.
    const ready = Math.max(from, call.beforeMs ?? from);
    const started = Math.max(call.startedMs ?? from, ready);
    const waitingMs = started - ready;
    const idleMs = waitingMs - this.#computedIn({ from: ready, to: started });
    return { call, latencyMs, waitingMs, idleMs, movingMs: to - started, hiddenMs };
  }

  #computedIn({ from, to }: Stretch): number {
    let milliseconds = 0;
    for (const each of this.#computed) {
      milliseconds += Math.max(0, Math.min(to, each.to) - Math.max(from, each.from));
    }
    return milliseconds;
  }
}
