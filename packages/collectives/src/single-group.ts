import { type ProcessGroup, reasonText } from '@shardwise/core/spec';
import type { Limits } from './call/call-options.ts';
import type { GroupCall, Transfer } from './call/calls.ts';
import { CallsOfOne } from './call/calls-of-one.ts';
import { CheckedGroup } from './call/checked-group.ts';

/** The world of one rank. It checks every call as any group does, and communicates nothing. */
export function singleGroup(): ProcessGroup {
  return new SingleGroup(0, 1);
}

class SingleGroup extends CheckedGroup {
  protected override readonly collectives = new CallsOfOne(carryOut);
  protected override readonly transfers = new CallsOfOne((_transfer: Transfer) => {
    throw new RangeError('The checks refuse every peer of a group of one');
  });

  override close(reason?: Error): void {
    const cause = { rank: 0, reason: reasonText(reason ?? 'it closed the group') };
    this.collectives.end(cause);
    this.transfers.end(cause);
  }

  protected override async divide(
    member: { readonly color: number | undefined; readonly key: number },
    limits: Limits,
  ): Promise<ProcessGroup | undefined> {
    await this.exchange({ ...member, channel: 0 }, limits);
    return member.color === undefined ? undefined : singleGroup();
  }
}

/**
 * Carries out a call of one rank. The reduction of its values is these values, unless the reduction has a factor. The
 * arithmetic for factors is only loaded when it is needed.
 */
function carryOut({ record, input, output }: GroupCall): Promise<void> {
  const { dtype, reduce } = record;
  if (dtype !== undefined && typeof reduce === 'object') {
    return import('./reduce/reduce-elements.ts').then(({ reduceElements }) =>
      reduceElements([input], [output], dtype, reduce),
    );
  }
  if (input.byteLength === output.byteLength) output.set(input);
  return DONE;
}

const DONE: Promise<void> = Promise.resolve();
