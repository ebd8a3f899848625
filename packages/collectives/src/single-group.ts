import type { ProcessGroup } from '@shardwise/core/spec';
import type { Limits } from './call/call-options.ts';
import { CallQueue, type Movement } from './call/call-queue.ts';
import { CheckedGroup } from './call/checked-group.ts';
import { type LateRanks, reasonText } from './call/failure.ts';
import type { GroupCall, Transfer } from './call/calls.ts';
import type { IssuedCall } from './call/issued-call.ts';
import { reduceElements } from './reduce/reduce-elements.ts';

/** The world of one rank. Every call is checked as in any group, and nothing is communicated. */
export function singleGroup(): ProcessGroup {
  return new SingleGroup(0, 1);
}

class SingleGroup extends CheckedGroup {
  readonly #calls = new CallsOfOne(({ record, input, output }: GroupCall) => {
    const { dtype, reduce } = record;
    if (dtype !== undefined && reduce !== undefined) {
      reduceElements([input], [output], dtype, reduce);
    } else if (input.byteLength === output.byteLength) {
      output.set(input);
    }
  });
  readonly #messages = new CallsOfOne((_transfer: Transfer) => {
    throw new RangeError('The checks refuse every peer of a group of one');
  });

  protected override get collectives(): CallsOfOne<GroupCall>['queue'] {
    return this.#calls.queue;
  }

  protected override get transfers(): CallsOfOne<Transfer>['queue'] {
    return this.#messages.queue;
  }

  override close(reason?: Error): void {
    this.#calls.abort(reason ?? 'it closed the group');
    this.#messages.abort(reason ?? 'it closed the group');
  }

  protected override async divide(
    member: { readonly color: number | undefined; readonly key: number },
    limits: Limits,
  ): Promise<ProcessGroup | undefined> {
    await this.exchange({ ...member, channel: 0 }, limits);
    return member.color === undefined ? undefined : singleGroup();
  }
}

/** A queue whose calls are done when they are issued. */
class CallsOfOne<Call extends GroupCall | Transfer> implements Movement<Call, undefined> {
  readonly queue: CallQueue<Call, undefined>;
  readonly #run: (call: Call) => void;

  constructor(run: (call: Call) => void) {
    this.#run = run;
    this.queue = new CallQueue<Call, undefined>(0, this, { isTimed: false });
  }

  begin(): undefined {}

  move(issued: IssuedCall<Call, undefined>): void {
    this.#run(issued.call);
    this.queue.settle(issued);
  }

  isMoving(): boolean {
    return false;
  }

  late(): LateRanks {
    return { missing: [], slow: [] };
  }

  abort(reason: unknown): void {
    this.queue.end({ rank: 0, reason: reasonText(reason) });
  }
}
