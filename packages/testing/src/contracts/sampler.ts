import type { Sampler } from '@shardwise/core/spec';
import { equal, holds } from '../suite/assertions.ts';
import type { Suite } from '../suite/suite.ts';

/** What `samplerSuite` tests. */
export interface SamplerContract {
  readonly name: string;
  /** Makes new samplers of a dataset, the sampler of each rank at its index. They are equal every time. */
  readonly create: (items: number, ranks: number) => readonly Sampler[];
  /** The numbers of ranks that are tested. Default: 1, 2 and 3. A sampler that does not know ranks is tested on 1. */
  readonly ranks?: readonly number[];
  /** Whether each epoch has its own order. */
  readonly shuffles: boolean;
  /**
   * How often an epoch visits the items of a dataset. `all`: every item, and some items again if the number of ranks
   * does not divide the number of items. `most`: no item twice, and some items not at all in this case. `once`: every
   * item once, so that ranks may have different numbers of items. `any`: items are drawn. Default: all.
   */
  readonly visits?: 'all' | 'most' | 'once' | 'any';
}

/** Numbers of items: the fewest, an odd one, and so many that two random orders are hardly ever equal. */
const datasets = [1, 7, 100];

/** The tests of a Sampler, on every rank of a world. */
export function samplerSuite(contract: SamplerContract): Suite {
  const { name, ranks = [1, 2, 3] } = contract;
  return {
    name: `${name} keeps the contract of samplers`,
    tests: ranks.flatMap((count) =>
      datasets.flatMap((items) =>
        Object.entries(checks).map(([promise, check]) => ({
          groups: [`${items} items on ${count} ${count === 1 ? 'rank' : 'ranks'}`],
          name: promise,
          run: async () => check(new Orders(contract, items, count)),
        })),
      ),
    ),
  };
}

/** The items that the ranks visit. */
class Orders {
  readonly contract: SamplerContract;
  readonly items: number;
  readonly samplers: readonly Sampler[];
  readonly #ranks: number;

  constructor(contract: SamplerContract, items: number, ranks: number) {
    this.contract = contract;
    this.items = items;
    this.#ranks = ranks;
    this.samplers = contract.create(items, ranks);
    equal(this.samplers.length, ranks, 'samplers');
  }

  of(epoch: number): readonly (readonly number[])[] {
    for (const sampler of this.samplers) sampler.setEpoch(epoch);
    return this.samplers.map((sampler) => [...sampler]);
  }

  /** Returns the orders of new samplers. */
  again(): Orders {
    return new Orders(this.contract, this.items, this.#ranks);
  }
}

const checks: Readonly<Record<string, (orders: Orders) => void>> = {
  'all ranks visit as many items as length says, which is equally many if some are visited twice or not at all':
    (orders) => {
      const [first] = orders.samplers;
      const isEven = orders.contract.visits !== 'once';
      for (const [rank, order] of orders.of(0).entries()) {
        equal(order.length, orders.samplers[rank]?.length, `rank ${rank}`);
        if (isEven) equal(order.length, first?.length, `rank ${rank} and rank 0`);
      }
    },
  'items are those of the dataset': (orders) => {
    for (const index of orders.of(0).flat()) {
      holds(
        Number.isInteger(index) && index >= 0 && index < orders.items,
        `${index} is no item of ${orders.items}`,
      );
    }
  },
  'an epoch has the items that it should have': (orders) => {
    const { visits = 'all' } = orders.contract;
    for (const epoch of [0, 1]) {
      const visited = orders.of(epoch).flat();
      const distinct = new Set(visited).size;
      if (visits === 'all' || visits === 'once')
        equal(distinct, orders.items, `items visited in epoch ${epoch}`);
      if (visits === 'most' || visits === 'once')
        equal(distinct, visited.length, `items visited once in epoch ${epoch}`);
      if (visits === 'any') continue;
      // Padding and leaving out items each change the number of visits by less than the number of ranks.
      const difference = Math.abs(visited.length - orders.items);
      holds(
        difference < orders.samplers.length,
        `${visited.length} visits of ${orders.items} items`,
      );
    }
  },
  'the order of an epoch is the same for every sampler of its settings': (orders) => {
    for (const epoch of [0, 3]) equal(orders.of(epoch), orders.again().of(epoch), `epoch ${epoch}`);
  },
  'an epoch that is begun again has the same order, also after others': (orders) => {
    const first = orders.of(1);
    orders.of(2);
    equal(orders.of(1), first);
  },
  'an epoch that is left in the middle leaves nothing behind': (orders) => {
    const first = orders.of(1);
    for (const sampler of orders.samplers) sampler[Symbol.iterator]().next();
    equal(orders.of(1), first);
  },
  'another epoch has another order where it shuffles, and the same where not': (orders) => {
    const [first, second] = [orders.of(0), orders.of(1)].map((order) => JSON.stringify(order));
    if (!orders.contract.shuffles) equal(second, first);
    else if (orders.items >= 100) holds(first !== second, 'epochs 0 and 1 have one order');
  },
  'settings, where it has some, are plain data that all ranks have alike': ({ samplers }) => {
    const settings = samplers.map((sampler) => ('settings' in sampler ? sampler.settings : null));
    for (const each of settings) {
      equal(structuredClone(each), each);
      equal(each, settings[0]);
    }
  },
};
