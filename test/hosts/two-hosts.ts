import { createHosts, type TestHost, type TestHosts } from '@shardwise/testing/hosts';
import { HostRanks } from './host-ranks.ts';

/** Two hosts with two ranks each. */
export class TwoHosts implements AsyncDisposable {
  readonly ranks: HostRanks;
  readonly #made: TestHosts;

  private constructor(made: TestHosts) {
    this.#made = made;
    this.ranks = new HostRanks(made.hosts, 2);
  }

  static async create(): Promise<TwoHosts> {
    return new TwoHosts(await createHosts(2));
  }

  get hosts(): readonly TestHost[] {
    return this.#made.hosts;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.ranks[Symbol.asyncDispose]();
    await this.#made[Symbol.asyncDispose]();
  }
}
