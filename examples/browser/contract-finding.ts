/** A finding of the rank of contract.html. Findings come one after the other. */
export type ContractFinding =
  | { readonly kind: 'begun'; readonly tests: number; readonly adapter: string }
  | {
      readonly kind: 'test';
      readonly name: string;
      readonly status: 'passed' | 'skipped' | 'failed';
      /** Why the test was skipped, or its error. */
      readonly reason: string;
    }
  | { readonly kind: 'measured'; readonly what: string; readonly figure: string };

export function isFinding(value: unknown): value is ContractFinding {
  return typeof value === 'object' && value !== null && 'kind' in value;
}
