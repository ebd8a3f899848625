/**
 * Counts the tokens of each tenant, so that those who got the fewest come first (virtual token counters, Sheng et al. 2024).
 * Who was away does not save turns up: a tenant that comes begins with as many as the one of those there that has the fewest.
 */
export class TenantTokens {
  readonly #counts = new Map<string, number>();
  /** The count of the tenant that was there last. */
  #last = 0;

  get counts(): ReadonlyMap<string, number> {
    return this.#counts;
  }

  /** Notes that a tenant has come. `present` are those of which sequences are there already. */
  join(tenant: string, present: ReadonlySet<string>): void {
    if (present.has(tenant)) return;
    // Those who come again begin with at least as many.
    if (present.size === 0) this.#forget();
    const others = [...present].map((each) => this.#countOf(each));
    const least = others.length === 0 ? this.#last : Math.min(...others);
    this.#counts.set(tenant, Math.max(this.#countOf(tenant), least));
  }

  add(tenant: string, tokens: number): void {
    this.#last = this.#countOf(tenant) + tokens;
    this.#counts.set(tenant, this.#last);
  }

  #forget(): void {
    for (const [tenant, count] of this.#counts)
      if (count <= this.#last) this.#counts.delete(tenant);
  }

  #countOf(tenant: string): number {
    return this.#counts.get(tenant) ?? 0;
  }
}
