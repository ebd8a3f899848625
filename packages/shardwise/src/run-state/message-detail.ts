/** What a collective in a timeline has sent. */
export interface MessageDetail {
  readonly bytes: number;
  readonly axis: string;
  /** The ranks of the group. */
  readonly ranks: number;
}

/** Reads the detail of a collective, such as `4096 bytes on dp of 2`. Returns undefined for other texts. */
export function messageDetail(detail: string | undefined): MessageDetail | undefined {
  const found = /^(\d{1,15}) bytes on (\S{1,100}) of (\d{1,7})$/.exec(detail ?? '');
  if (found === null) return undefined;
  const [, bytes, axis = '', ranks] = found;
  return { bytes: Number(bytes), axis, ranks: Number(ranks) };
}
