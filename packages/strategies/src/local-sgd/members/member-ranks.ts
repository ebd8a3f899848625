import { CollectiveAbortedError, hashOfNumbers, type ProcessGroup } from '@shardwise/core/extend';
import { bytesOf } from '../messages/outer-messages.ts';
import type { ChangingGroup } from './changing-group.ts';
import type { MemberState } from './members.ts';
import type { Agreed, OuterGroup, OwnUpdate, SharedValues } from './outer-group.ts';
import { requireSameHash } from './require-same-hash.ts';

/** The ranks of one member. */
export interface MemberRanksOptions {
  readonly strategy: string;
  /** By this group, ranks learn what the members have agreed on. Its calls may last for as long as a round does. */
  readonly agreements: ProcessGroup;
  /** The same ranks, for calls that end at once. */
  readonly checks: ProcessGroup;
  /** The elements of each fragment. */
  readonly elements: readonly number[];
  readonly stateBytes: number;
}

const kinds = ['none', 'skipped', 'vector', 'state', 'failed'] as const;

/** The longest time that a timer can have. Others may take as long as they like for a round. */
const patient = { timeoutMs: 2 ** 31 - 1 } as const;

/**
 * A member that is several ranks, which train one copy of the model. All of them make the same outer steps; rank 0 speaks
 * with the other members, and tells the others what it hears.
 */
export class MemberRanks implements OuterGroup {
  readonly isFixed = false;
  readonly audits = null;
  readonly parts = 1;
  readonly #member: ChangingGroup;
  readonly #options: MemberRanksOptions;
  #hasEntered = false;

  /** Only rank 0 uses the member. */
  constructor(member: ChangingGroup, options: MemberRanksOptions) {
    this.#member = member;
    this.#options = options;
  }

  get isWeighted(): boolean {
    return this.#member.isWeighted;
  }

  /** The time of rank 0, so that all ranks end a round after the same update. */
  async now(): Promise<number> {
    const time = Float64Array.of(await this.#member.now());
    await this.#options.checks.broadcast(rawBytes(time), 0);
    return time[0] ?? 0;
  }

  /** Throws CollectiveMismatchError on every rank if the ranks have different values. */
  async begin(shared: SharedValues): Promise<MemberState | null> {
    if (this.#hasEntered) return null;
    this.#hasEntered = true;
    await this.#requireSame(shared.state());
    const agreed = await this.#ofRankZero(this.#options.stateBytes, async () => {
      const state = await this.#member.begin(shared);
      return state === null ? null : { kind: 'state', state };
    });
    return agreed?.kind === 'state' ? agreed.state : null;
  }

  async agree(own: OwnUpdate): Promise<Agreed> {
    const tokens = this.isWeighted ? await this.#tokensOfAll(own.tokens) : 0;
    const agreed = await this.#ofRankZero(this.#vectorBytes(own.completed), () =>
      this.#member.agree({ ...own, tokens }),
    );
    return agreed ?? { kind: 'skipped' };
  }

  missed(completed: number): Promise<Agreed | null> {
    return this.#ofRankZero(this.#vectorBytes(completed), () => this.#member.missed(completed));
  }

  /** Throws CollectiveMismatchError on every rank if the ranks have different states. */
  async took(state: () => MemberState): Promise<void> {
    const own = state();
    await this.#requireSame(own);
    if (this.#options.checks.rank === 0) await this.#member.took(() => own);
  }

  #vectorBytes(completed: number): number {
    const { elements } = this.#options;
    return (elements[completed % elements.length] ?? 0) * Float32Array.BYTES_PER_ELEMENT;
  }

  /** All ranks get what rank 0 has heard. If that is an error, the calls of all fail. */
  async #ofRankZero(
    vectorBytes: number,
    ask: () => Promise<Agreed | null>,
  ): Promise<Agreed | null> {
    const { agreements: group, stateBytes, strategy } = this.#options;
    const heard = group.rank === 0 ? await this.#heard(ask) : null;
    const completed = heard?.kind === 'state' ? heard.state.completed : 0;
    const header = Float64Array.of(kinds.indexOf(heard?.kind ?? 'none'), completed);
    await group.broadcast(rawBytes(header), 0, patient);
    const kind = kinds[header[0] ?? 0] ?? 'none';
    if (kind === 'none') return null;
    if (kind === 'skipped') return { kind };
    if (kind === 'failed') {
      const text = new Uint8Array(header[1] ?? 0);
      await group.broadcast({ bytes: text, dtype: 'u8' }, 0);
      throw new CollectiveAbortedError({
        asked: `an outer step of ${strategy}`,
        found: `an error of rank 0: ${new TextDecoder().decode(text)}`,
        todo: 'Mend what rank 0 has found, which speaks for its member',
      });
    }
    if (kind === 'vector') {
      const vector = heard?.kind === kind ? heard.vector : new Float32Array(vectorBytes / 4);
      await group.broadcast({ bytes: bytesOf(vector), dtype: 'f32' }, 0);
      return { kind, vector };
    }
    const bytes = heard?.kind === kind ? heard.state.bytes : new Uint8Array(stateBytes);
    await group.broadcast({ bytes, dtype: 'u8' }, 0);
    return { kind, state: { completed: header[1] ?? 0, bytes } };
  }

  async #heard(ask: () => Promise<Agreed | null>): Promise<Agreed | null> {
    try {
      return await ask();
    } catch (error) {
      // The group stays open: a member that leaves has a message on its way, and its ranks still have work together.
      const { agreements: group } = this.#options;
      const text = new TextEncoder().encode(String(error));
      const header = Float64Array.of(kinds.indexOf('failed'), text.length);
      for (const each of [rawBytes(header), { bytes: text, dtype: 'u8' }] as const) {
        group.broadcast(each, 0, patient).catch(() => undefined);
      }
      throw error;
    }
  }

  /** The tokens of all ranks. 0 if one of them has not counted its own. */
  async #tokensOfAll(own: number): Promise<number> {
    const { checks } = this.#options;
    const all = new Float64Array(checks.size);
    await checks.allGather(rawBytes(Float64Array.of(own)), rawBytes(all));
    return all.includes(0) ? 0 : all.reduce((sum, each) => sum + each, 0);
  }

  #requireSame({ bytes }: MemberState): Promise<void> {
    const { strategy, checks } = this.#options;
    return requireSameHash(checks, hashOfNumbers(bytes), {
      asked: `one state of ${strategy} on all ranks of a member`,
      other: 'another one',
      todo: 'Load the same weights on every rank, and change no parameters on one rank alone',
    });
  }
}

function rawBytes({ buffer }: Float64Array): { readonly bytes: Uint8Array; readonly dtype: 'u8' } {
  return { bytes: new Uint8Array(buffer), dtype: 'u8' };
}
