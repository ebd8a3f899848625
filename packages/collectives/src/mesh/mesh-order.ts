import { checkOptions, option } from '@shardwise/core/base';
import { ConfigError, type MeshAxis } from '@shardwise/core/spec';

const orderRules = {
  order: option.required(option.text),
  sizes: option.required(option.object<Readonly<Record<string, number>>>('sizes by name')),
};
const size = option.required(option.integer(1));

/**
 * The default order of Megatron-LM: ranks of one tp group are neighbours, and those of one pp group are the
 * farthest apart.
 */
const megatronOrder = 'tp-cp-ep-dp-pp';

/**
 * The axes of a mesh for createMesh, from an order in the notation of Megatron-LM. The first name of the order
 * is the fastest axis, which is the last one of createMesh. Axes without a size have one rank. Throws
 * ConfigError for a name that occurs twice, and for an axis with several ranks that is not in the order.
 */
export function meshOrder(
  order: string,
  sizes: Readonly<Record<string, number>>,
): readonly MeshAxis[] {
  checkOptions('meshOrder', { order, sizes }, orderRules);
  const rules = Object.fromEntries(Object.keys(sizes).map((name) => [name, size]));
  checkOptions('meshOrder', sizes, rules);
  const names = order.split('-');
  if (new Set(names).size < names.length || names.includes('')) {
    throw new ConfigError(
      {
        asked: `the rank order '${order}'`,
        found: 'a name that is empty or there twice',
        todo: `Name each axis once, as in '${megatronOrder}'`,
      },
      { order },
    );
  }
  const missing = Object.entries(sizes).filter(([name, size]) => !names.includes(name) && size > 1);
  if (missing.length > 0) {
    const list = missing.map(([name, size]) => `${name} ${size}`).join(', ');
    throw new ConfigError(
      {
        asked: `the rank order '${order}'`,
        found: `sizes of axes that it does not name: ${list}`,
        todo: 'Add them to the order, or give them size 1',
      },
      { order, sizes },
    );
  }
  return names.toReversed().map((name) => ({ name, size: sizes[name] ?? 1 }));
}
