import type { ProductInstructions } from '../../src/engines/products/product-machine.ts';

/** What `products-on-arm.ts` prints. */
export interface ArmReport {
  /** What computes products, or why machine code does not. */
  readonly machine: ProductInstructions | string;
  readonly errors: Readonly<Record<string, number>>;
  readonly sumsAreFused: boolean;
  /** The contract of backends. Null if machine code does not compute products. */
  readonly contract: {
    readonly description: string;
    readonly passed: number;
    readonly failures: readonly string[];
  } | null;
}
