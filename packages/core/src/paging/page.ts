/** The contents of a leaf that are kept outside the device. Each run that needs them reads them. */
export interface Page {
  readonly byteLength: number;
  /** `target` must have the length of the page. */
  read(target: Uint8Array): Promise<void>;
}

/** Keeps pages. A page replaces the earlier page of the same name. */
export interface PageStore {
  /** `bytes` may change once this has settled. */
  write(name: string, bytes: Uint8Array): Promise<Page>;
}

/** A source of contents for leaves of a device. The contents may still be on their way. */
export interface PageSource {
  /** Fills `target` as soon as the contents with this name are there. */
  read(name: string, target: Uint8Array): Promise<void>;
}

/** Keeps pages in ordinary memory of this process, outside the device's memory. */
export function hostPages(): PageStore {
  return {
    write: async (_, bytes) => {
      const copy = bytes.slice();
      return { byteLength: copy.byteLength, read: async (target) => target.set(copy) };
    },
  };
}
