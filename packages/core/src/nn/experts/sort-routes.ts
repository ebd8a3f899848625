import { arange } from '../../tensor/create-ranges.ts';
import { zeros } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import type { Routing } from './gate.ts';

/** Routes in the order of their experts, those of one expert in the order in which the routing has them. */
export interface SortedRoutes {
  /** Which route comes i-th; what is dropped comes last. Shape: i32 [R]. */
  readonly order: Tensor;
  /** At which place each route comes. Shape: i32 [R]. */
  readonly places: Tensor;
  /** How many routes of each expert are kept. Shape: i32 [E]. */
  readonly counts: Tensor;
}

export function sortRoutes({ experts, kept }: Routing, count: number): SortedRoutes {
  const routes = experts.numel;
  const own = kept === null ? experts : kept.where(experts, count);
  // argSort keeps the order of equal elements, so that sums over routes have one order.
  const order = own.argSort(0);
  const places = zeros([routes], 'i32').scatter(0, order, arange(routes));
  const ones = zeros([routes], 'i32').add(1);
  const counts = zeros([count + 1], 'i32')
    .scatterAdd(0, own, ones)
    .slice(0, 0, count);
  return { order, places, counts };
}
