import type { AuditTask, MemberAudits, UpdateTrace } from '@shardwise/strategies';
import type { FromMember, Made } from '../protocol/messages.ts';

/** What a member's audits need of the member. */
interface AuditContext {
  /** Returns the SHA-256 of bytes in hexadecimal digits. */
  readonly digest: (bytes: Uint8Array) => Promise<string>;
  readonly tell: (message: FromMember) => void;
  readonly number: () => number;
}

/** A coordinator asks for one at a time. Whatever it sends, no more than so many are kept. */
const MAX_TASKS = 16;

/** What a member says about its own updates, and the updates of others that it is asked to make again. */
export class MemberAudit implements MemberAudits {
  readonly #context: AuditContext;
  #computes: string | null = null;
  #made: (Made & { readonly round: number }) | null = null;
  #tasks: readonly AuditTask[] = [];

  constructor(context: AuditContext) {
    this.#context = context;
  }

  get seed(): number {
    return this.#context.number();
  }

  /** How this member computes, by a hash. Null: others cannot make its updates again. */
  get computes(): string | null {
    return this.#computes;
  }

  async computesAs(values: Uint8Array): Promise<void> {
    this.#computes = await this.#context.digest(values);
  }

  async commit(round: number, seed: number, middle: Uint8Array): Promise<void> {
    this.#made = { round, seed, middle: await this.#context.digest(middle) };
  }

  next(): AuditTask | null {
    const [first = null, ...others] = this.#tasks;
    this.#tasks = others;
    return first;
  }

  async answer({ round, member }: AuditTask, trace: UpdateTrace | null): Promise<void> {
    const { digest, tell } = this.#context;
    if (trace === null) {
      tell({ kind: 'cannotAudit', round, member });
      return;
    }
    const [hash, middle] = [await digest(trace.message), await digest(trace.middle)];
    tell({ kind: 'audited', round, member, hash, middle });
  }

  /** The coordinator asks for an update. */
  asked(task: AuditTask): void {
    if (this.#tasks.length < MAX_TASKS) this.#tasks = [...this.#tasks, task];
  }

  /** The connection is lost, and nobody waits for the answers any more. */
  lost(): void {
    this.#tasks = [];
  }

  /** How the update of a round was made. Null: nobody can make it again. */
  madeOf(round: number): Made | null {
    const made = this.#made;
    return made?.round === round ? { seed: made.seed, middle: made.middle } : null;
  }
}
