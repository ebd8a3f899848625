/** The contents of an error as plain data that can be posted between threads. */
export interface ErrorReport {
  readonly name: string;
  readonly message: string;
  readonly stack: string | undefined;
  /** The `code` of a ShardwiseError, as `fields` are its fields. */
  readonly code: string | undefined;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** The failure of a rank that threw an error or ended early. Its stack begins with that of the rank's own error. */
export class RankFailure extends Error {
  readonly rank: number;
  readonly report: ErrorReport;

  constructor(rank: number, report: ErrorReport, options?: ErrorOptions) {
    super(`rank ${rank}: ${report.name}: ${report.message}`, options);
    this.name = 'RankFailure';
    this.rank = rank;
    this.report = report;
    this.stack = `rank ${rank}: ${report.stack ?? `${report.name}: ${report.message}`}\n${this.stack ?? ''}`;
  }
}

/** How a rank ended. */
export type RankOutcome =
  | { readonly status: 'fulfilled'; readonly value: unknown }
  | { readonly status: 'rejected'; readonly error: RankFailure };

/** Converts a thrown value to a report. */
export function reportOf(error: unknown): ErrorReport {
  if (!(error instanceof Error)) {
    const message = String(error);
    return { name: 'Error', message, stack: undefined, code: undefined, fields: {} };
  }
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  const fields = 'fields' in error && isRecord(error.fields) ? error.fields : {};
  return {
    name: error.name,
    message: error.message,
    stack: error.stack,
    code,
    fields: cloneable(fields),
  };
}

function cloneable(fields: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  try {
    return structuredClone(fields);
  } catch {
    return {};
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
