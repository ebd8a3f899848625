import { indices } from '../../tensor/create-ranges.ts';
import { zeros } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import type { Routing } from './gate.ts';

/** The order of routes by their experts. Routes of one expert keep the order of the routing. */
export interface SortedRoutes {
  /** The index of the route at each place. Dropped routes come last. Shape: i32 [R]. */
  readonly order: Tensor;
  /** The place of each route. Shape: i32 [R]. */
  readonly places: Tensor;
  /** The number of kept routes of each expert. Shape: i32 [E]. */
  readonly counts: Tensor;
}

export function sortRoutes({ experts, kept }: Routing, count: number): SortedRoutes {
  const routes = experts.numel;
  const own = kept === null ? experts : kept.where(experts, count);
  // argSort keeps the order of equal elements, so sums over routes always have the same order.
  const order = own.argSort(0);
  const places = zeros([routes], 'i32').scatter(0, order, indices(routes));
  const ones = zeros([routes], 'i32').add(1);
  const counts = zeros([count + 1], 'i32')
    .scatterAdd(0, own, ones)
    .slice(0, 0, count);
  return { order, places, counts };
}
