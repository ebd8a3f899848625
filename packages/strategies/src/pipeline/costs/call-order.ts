import { currentRegion, type Module } from '@shardwise/core/extend';

/**
 * Of some modules, which stand in the order of the model, those at which stages can begin: that `forward` calls, outside
 * of parts that backward makes again, one behind the other. Where it calls some in another order than that of the model,
 * as many as can be are left.
 */
export function callOrder(
  model: Module,
  paths: readonly string[],
  forward: () => unknown,
): readonly string[] {
  const called = new Set<number>();
  const removes = paths.map((path, place) =>
    model.getSubmodule(path).registerForwardPreHook(() => {
      if (currentRegion() === null) called.add(place);
    }),
  );
  try {
    forward();
  } finally {
    for (const remove of removes) remove();
  }
  return longestAscent([...called]).map((place) => paths[place] ?? '');
}

/** The longest list of numbers that ascend and stand in this order; of equally long ones that which ends first. */
function longestAscent(numbers: readonly number[]): readonly number[] {
  const ending: { readonly length: number; readonly before: number }[] = [];
  let longest = -1;
  for (const [index, number] of numbers.entries()) {
    let before = -1;
    for (const [earlier, other] of numbers.slice(0, index).entries()) {
      const isLonger = (ending[earlier]?.length ?? 0) > (ending[before]?.length ?? 0);
      if (other < number && isLonger) before = earlier;
    }
    ending.push({ length: 1 + (ending[before]?.length ?? 0), before });
    if ((ending[index]?.length ?? 0) > (ending[longest]?.length ?? 0)) longest = index;
  }
  const found: number[] = [];
  for (let index = longest; index >= 0; index = ending[index]?.before ?? -1) {
    found.unshift(numbers[index] ?? 0);
  }
  return found;
}
