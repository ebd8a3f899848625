import { ConfigError, type ProcessGroup, reasonText } from '@shardwise/core/spec';
import type { Limits } from './call/call-options.ts';
import type { GroupCall, Transfer } from './call/calls.ts';
import { CallsOfOne } from './call/calls-of-one.ts';
import { CheckedGroup } from './call/checked-group.ts';

/**
 * A group of ranks that know how many they are and share nothing, since each comes and goes by itself. Every
 * call rejects with a ConfigError that contains `advice`.
 */
export function unavailableGroup(rank: number, size: number, advice: string): ProcessGroup {
  return new UnavailableGroup(rank, size, advice);
}

class UnavailableGroup extends CheckedGroup {
  protected override readonly collectives: CallsOfOne<GroupCall>;
  protected override readonly transfers: CallsOfOne<Transfer>;

  constructor(rank: number, size: number, advice: string) {
    super(rank, size);
    const refuse = (): Promise<never> =>
      Promise.reject(
        new ConfigError(
          {
            asked: `a call of rank ${rank} to the others of ${size}`,
            found: 'ranks that come and go one by one, so that none waits for another',
            todo: advice,
          },
          { rank, size },
        ),
      );
    this.collectives = new CallsOfOne(refuse);
    this.transfers = new CallsOfOne(refuse);
  }

  override close(reason?: Error): void {
    const cause = { rank: this.rank, reason: reasonText(reason ?? 'it closed the group') };
    this.collectives.end(cause);
    this.transfers.end(cause);
  }

  protected override async divide(
    member: { readonly color: number | undefined; readonly key: number },
    limits: Limits,
  ): Promise<undefined> {
    await this.exchange({ ...member, channel: 0 }, limits);
    return undefined;
  }
}
