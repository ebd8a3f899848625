/** What the rank of contract.html finds, one after the other. */
export type ContractFinding =
  | { readonly kind: 'begun'; readonly tests: number; readonly adapter: string }
  | {
      readonly kind: 'test';
      readonly name: string;
      readonly status: 'passed' | 'skipped' | 'failed';
      /** Why it was skipped, or what it failed with. */
      readonly reason: string;
    }
  | { readonly kind: 'measured'; readonly what: string; readonly figure: string };

export function isFinding(value: unknown): value is ContractFinding {
  return typeof value === 'object' && value !== null && 'kind' in value;
}
