/** Three digits behind the point at most. */
export function formatNumber(value: number): string {
  return String(Number(value.toFixed(3)));
}
