/** Why a rank cannot save, and what to do about it. */
export class SaveFailure extends Error {
  readonly todo: string;

  constructor(found: string, todo: string) {
    super(found);
    this.todo = todo;
  }
}
