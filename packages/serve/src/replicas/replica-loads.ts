import { KnownPrefixes } from './known-prefixes.ts';
import type { RequestEstimate } from './request-estimate.ts';

/** A server of the same model among several. */
export interface Replica {
  /** Where it listens. Null while it starts. */
  readonly url: string | null;
}

/** What is known of a replica. */
interface ReplicaLoad {
  /** Where it listened when the prefixes were recorded. One that starts again listens elsewhere, and its cache is empty. */
  url: string | null;
  readonly prefixes: KnownPrefixes;
  /** Estimated tokens of the requests that it answers. */
  outstanding: number;
  /** Estimated tokens of prompts that its cache was expected to have. */
  expected: number;
}

/** A request that a replica answers. */
export interface BegunRequest {
  readonly replica: Replica;
  readonly url: string;
  /** Is called once, when the request is over. */
  readonly end: () => void;
}

export interface BeginOptions {
  /** Requests of different tenants share no prefixes. */
  readonly tenant: string;
  /** The replicas that may answer it. */
  readonly among: readonly Replica[];
  /** Addresses that were tried in vain. */
  readonly lost: ReadonlySet<string>;
}

/** So many tokens of prompts are remembered for each replica by default. */
const MAX_KNOWN_TOKENS = 65_536;

/**
 * Chooses who answers a request: the replica for which its tokens, without those of prompts that its cache should have, and
 * the tokens that it has to do already are the fewest. Among equal ones, the first. All of these are estimates, which decide
 * where a text is computed and never which text it is.
 */
export class ReplicaLoads {
  readonly #loads: ReadonlyMap<Replica, ReplicaLoad>;

  constructor(replicas: readonly Replica[], maxKnownTokens: number = MAX_KNOWN_TOKENS) {
    this.#loads = new Map(
      replicas.map((replica) => {
        const prefixes = new KnownPrefixes(maxKnownTokens);
        return [replica, { url: replica.url, prefixes, outstanding: 0, expected: 0 }];
      }),
    );
  }

  /** Estimated tokens of prompts that the cache of a replica was expected to have. */
  expectedOf(replica: Replica): number {
    return this.#loads.get(replica)?.expected ?? 0;
  }

  /** Chooses a replica for a request and counts the request there. Returns null if none listens. */
  begin(request: RequestEstimate, { tenant, among, lost }: BeginOptions): BegunRequest | null {
    const salt = JSON.stringify([tenant, request.model]);
    const candidates = among.flatMap((replica) => {
      const load = this.#loads.get(replica);
      const { url } = replica;
      if (load === undefined || url === null || lost.has(url)) return [];
      if (load.url !== url) load.prefixes.forget();
      load.url = url;
      const known = request.prompts.reduce(
        (sum, prompt) => sum + load.prefixes.lengthOf(prompt, salt),
        0,
      );
      // A prompt may be longer in the form in which prompts are compared than in its body.
      return [{ replica, url, load, known, tokens: Math.max(0, request.tokens - known) }];
    });
    const [chosen] = candidates.toSorted(
      (a, b) => a.load.outstanding + a.tokens - (b.load.outstanding + b.tokens),
    );
    if (chosen === undefined) return null;
    const { replica, url, load, known, tokens } = chosen;
    for (const prompt of request.prompts) load.prefixes.add(prompt, salt);
    load.expected += known;
    load.outstanding += tokens;
    return { replica, url, end: () => (load.outstanding -= tokens) };
  }

  /** Forgets the prompts of a replica that was lost. */
  forget(replica: Replica): void {
    this.#loads.get(replica)?.prefixes.forget();
  }
}
