import type { AuditCounts } from './run-status.ts';

/** Says how many updates were made again, and what part of all computing this was. */
export function auditText({ updates, made, missed, disputed }: AuditCounts): string {
  return `${made} of ${updates} updates made again, which was ${formatCost({ updates, made })} of all computing; ${missed} could not be; ${disputed} disputed`;
}

/** The part of all updates, those that are made again among them, that audits have taken. */
export function formatCost({ updates, made }: Pick<AuditCounts, 'updates' | 'made'>): string {
  return `${(updates === 0 ? 0 : (100 * made) / (updates + made)).toFixed(1)} %`;
}
