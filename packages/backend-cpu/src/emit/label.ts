/** A place in code that jumps can go to. */
export interface Label {
  /** Bytes from the start of the code. Undefined until the label is placed. */
  byteOffset: number | undefined;
}
