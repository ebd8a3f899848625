/** Describes an error in one line, such as `TypeError: message`. */
export function describeError(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return text.replaceAll(/\s+/g, ' ');
}
