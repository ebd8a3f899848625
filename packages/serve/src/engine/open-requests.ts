import { defaultGenerator } from '@shardwise/core/extend';
import type { Tokenizer } from '@shardwise/data';
import type { ModelFacts } from '@shardwise/models';
import type { Scheduler } from '../scheduling/scheduler.ts';
import type { Sequence } from '../scheduling/sequence.ts';
import { BeamGroup } from './beam-group.ts';
import { Continuation } from './continuation.ts';
import type { CheckedRequest, ChosenToken, GeneratedToken } from './generation-request.ts';
import { ValueQueue } from './value-queue.ts';

/** A request that is being answered. */
export interface OpenRequest {
  readonly request: CheckedRequest;
  readonly seed: number;
  readonly queue: ValueQueue<GeneratedToken>;
  /** The sequences of its samples that have not ended. */
  readonly open: Map<Sequence, Continuation>;
  /** How its sequences go on together. Null if each of them goes on by itself. */
  readonly beams: BeamGroup | null;
  /** How many samples have begun. */
  begun: number;
  /** How many tokens of its prompt were in the cache when it began. */
  cachedTokens: number;
}

/** The requests that are being answered, by their sequences. */
export class OpenRequests {
  readonly #scheduler: Pick<Scheduler, 'remove'>;
  readonly #tokenizer: Tokenizer | null;
  readonly #eosTokenIds: readonly number[];
  readonly #bySequence = new Map<Sequence, OpenRequest>();

  constructor(
    scheduler: Pick<Scheduler, 'remove'>,
    tokenizer: Tokenizer | null,
    { eosTokenIds }: Pick<ModelFacts, 'eosTokenIds'>,
  ) {
    this.#scheduler = scheduler;
    this.#tokenizer = tokenizer;
    this.#eosTokenIds = eosTokenIds;
  }

  /** The request of a sequence. Undefined if it has ended. */
  of(sequence: Sequence): OpenRequest | undefined {
    return this.#bySequence.get(sequence);
  }

  /** Opens a request, whose first sample is the sequence. */
  open(request: CheckedRequest, sequence: Sequence): OpenRequest {
    const { seed = defaultGenerator().random(), numBeams = 1 } = request;
    const opened: OpenRequest = {
      request,
      seed,
      queue: new ValueQueue(),
      open: new Map(),
      beams: numBeams > 1 ? new BeamGroup(request, this.#eosTokenIds, this.#tokenizer) : null,
      begun: 0,
      cachedTokens: 0,
    };
    this.begin(opened, sequence);
    return opened;
  }

  /** Begins the next sample of a request. */
  begin(open: OpenRequest, sequence: Sequence): void {
    open.open.set(sequence, this.#beginning(open));
    this.#bySequence.set(sequence, open);
  }

  /** Notes how many tokens of its prompt a sequence has found in the cache. Later, its own tokens are there, too. */
  begun(sequence: Sequence, cachedTokens: number): void {
    const open = this.of(sequence);
    if (open !== undefined && sequence.preemptions === 0) open.cachedTokens = cachedTokens;
  }

  /** Gives a token to who waits for the request. */
  push({ queue, cachedTokens }: OpenRequest, token: ChosenToken): void {
    queue.push({ ...token, cachedTokens });
  }

  /** Ends a sequence, and its request if that was the last one. */
  end(open: OpenRequest, sequence: Sequence): void {
    this.#remove(open, sequence);
    if (open.open.size === 0) open.queue.end();
  }

  /** Ends a sequence whose time is over, or all beams of its request, with what there is. */
  expire(sequence: Sequence): void {
    const open = this.of(sequence);
    const continuation = open?.open.get(sequence);
    if (open === undefined || continuation === undefined) return;
    if (open.beams === null) {
      this.push(open, continuation.end('timeout'));
      // Those that would have begun when the prompt was computed.
      for (; sequence.samples > 1; sequence.samples--) {
        this.push(open, this.#beginning(open).end('timeout'));
      }
      this.end(open, sequence);
      return;
    }
    this.endBeams(open, open.beams.texts('timeout'));
  }

  /** Ends a request with the texts of its beams. */
  endBeams(open: OpenRequest, texts: Iterable<ChosenToken>): void {
    for (const each of texts) this.push(open, each);
    this.drop(open);
    open.queue.end();
  }

  /** Removes what is left of a request. */
  drop(open: OpenRequest): void {
    for (const sequence of open.open.keys()) this.#remove(open, sequence);
  }

  /** Ends a request with an error. */
  fail(open: OpenRequest, error: unknown): void {
    open.queue.fail(error);
    this.drop(open);
  }

  failAll(error: unknown): void {
    for (const open of new Set(this.#bySequence.values())) this.fail(open, error);
  }

  #beginning(open: OpenRequest): Continuation {
    const sample = open.begun++;
    const { request, seed } = open;
    return new Continuation(request, sample, seed + sample, this.#tokenizer, this.#eosTokenIds);
  }

  #remove(open: OpenRequest, sequence: Sequence): void {
    this.#scheduler.remove(sequence);
    this.#bySequence.delete(sequence);
    open.open.delete(sequence);
  }
}
