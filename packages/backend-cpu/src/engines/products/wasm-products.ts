import type { Arena } from '../../memory/arena.ts';
import { productsOf } from '../../program/work/batched-product.ts';
import type { Products } from './products.ts';
import type { groupsOfRun } from './wasm-groups.ts';
import { Multiplier, packedBytesOf } from '../../emit/wasm/multiply/multiply.ts';
import type { MatrixProduct } from '../../program/work/matrix-product.ts';
import type { CompiledPartition } from '../../program/partition.ts';

/** The addresses of the operands of products, of their result and of the addend. */
interface Addresses {
  readonly left: number;
  readonly right: number;
  readonly result: number;
  readonly addend: number;
}

/** WebAssembly as what computes products of f32. */
export function wasmProducts(arena: Arena, reason: string): Products {
  const multiplier = new Multiplier(arena.memory);
  let productsOfRun: typeof groupsOfRun | null = null;
  const run = (products: readonly MatrixProduct[], at: Addresses): void => {
    const packedBytes = products.reduce((most, one) => Math.max(most, packedBytesOf(one)), 0);
    const packed = arena.alloc(packedBytes);
    for (const product of products) {
      const { left, right, result, addend } = product;
      multiplier.run(
        {
          ...product,
          left: { ...left, address: at.left + left.byteOffset },
          right: { ...right, address: at.right + right.byteOffset },
          result: { ...result, address: at.result + result.byteOffset },
          addend: addend && { ...addend, address: at.addend + addend.byteOffset },
        },
        packed.byteOffset,
      );
    }
    arena.free(packed);
  };
  return {
    by: { by: 'webassembly', reason },
    own: { bf16: false, thin: true },
    attention: null,
    link: (_, product): CompiledPartition => {
      const products = productsOf(product);
      const { left, right, result, addend } = product;
      return {
        run: (addressOf) =>
          run(products, {
            left: addressOf(left.value),
            right: addressOf(right.value),
            result: addressOf(result),
            addend: addend === null ? 0 : addressOf(addend.value),
          }),
      };
    },
    loadGrouped: async () => {
      productsOfRun = (await import('./wasm-groups.ts')).groupsOfRun;
    },
    linkGrouped: (memory, product): CompiledPartition => ({
      run: (addressOf) => {
        if (productsOfRun === null) throw new RangeError('products of groups that were not loaded');
        run(productsOfRun(memory, product, addressOf), {
          left: addressOf(product.left.value),
          right: addressOf(product.right.value),
          result: addressOf(product.result),
          addend: 0,
        });
      },
    }),
  };
}
