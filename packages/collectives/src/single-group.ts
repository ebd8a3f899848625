import type { ProcessGroup } from '@shardwise/core/spec';
import type { Limits } from './call/call-options.ts';
import { CheckedGroup, type Transfer } from './call/checked-group.ts';
import { abortedError, reasonText, type AbortCause } from './call/failure.ts';
import type { GroupCall } from './call/group-call.ts';
import { reduceElements } from './reduce/reduce-elements.ts';

/** The world of one rank: every call is checked as in any group, and nothing is communicated. */
export function singleGroup(): ProcessGroup {
  return new SingleGroup(0, 1);
}

class SingleGroup extends CheckedGroup {
  #calls = 0;
  #ended: AbortCause | undefined;

  override close(reason?: Error): void {
    const text = reason === undefined ? 'it closed the group' : reasonText(reason);
    this.#ended ??= { rank: 0, reason: text };
  }

  protected override async run({ record, input, output }: GroupCall): Promise<void> {
    const site = { operation: record.operation, sequence: this.#calls++, rank: 0 };
    if (this.#ended !== undefined) throw abortedError(site, this.#ended);
    const { dtype, reduce } = record;
    if (dtype !== undefined && reduce !== undefined) {
      reduceElements([input], [output], dtype, reduce);
    } else if (input.byteLength === output.byteLength) {
      output.set(input);
    }
  }

  protected override transfer(_transfer: Transfer, _limits: Limits): Promise<void> {
    // The checks refuse every peer of a group of one.
    return Promise.reject(new RangeError('A group of one rank has no peers'));
  }

  protected override async divide(
    member: { readonly color: number | undefined; readonly key: number },
    limits: Limits,
  ): Promise<ProcessGroup | undefined> {
    await this.exchange({ ...member, channel: 0 }, limits);
    return member.color === undefined ? undefined : singleGroup();
  }
}
