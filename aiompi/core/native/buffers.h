/* The memory of NumPy's arrays, by its header alone: NumPy itself may not have been imported. */
#pragma once
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <Python.h>
#include <numpy/ndarraytypes.h>
#include <string.h>

typedef struct {
  char *data;
  Py_ssize_t nbytes;
  int readonly;
} memory_t;

/* Return 1 if `found` is NumPy's class of arrays; 0 for anything else, even a class of the same name. */
static int array_class(PyObject *found) {
  if (!PyType_Check(found)) return 0;
  const PyTypeObject *type = (PyTypeObject *)found;
  return !strcmp(type->tp_name, "numpy.ndarray") && type->tp_basicsize >= (Py_ssize_t)sizeof(PyArrayObject_fields);
}

/* Return 1 for a memoryview that has let go of its memory. */
static int view_released(PyObject *view) { return ((PyMemoryViewObject *)view)->flags & _Py_MEMORYVIEW_RELEASED; }

/* Return 1 for an array of plain numbers of this machine. */
static int array_plain(PyObject *array) {
  const PyArray_Descr *descr = ((PyArrayObject_fields *)array)->descr;
  int number = descr->type_num;
  int plain = (number >= NPY_BOOL && number <= NPY_CLONGDOUBLE) || number == NPY_HALF;
  return plain && descr->byteorder != NPY_OPPBYTE;
}

/* Find the memory of an array; return 0 if the array has gaps, or elements that are not plain numbers. */
static int array_memory(PyObject *object, memory_t *memory) {
  PyArrayObject_fields *array = (PyArrayObject_fields *)object;
  if (!array_plain(object)) return 0;
  if (!(array->flags & (NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS))) return 0;
  Py_ssize_t nbytes = array->descr->elsize;
  for (int i = 0; i < array->nd; i++) nbytes *= array->dimensions[i];
  memory->data = array->data;
  memory->nbytes = nbytes;
  memory->readonly = !(array->flags & NPY_ARRAY_WRITEABLE);
  return 1;
}

/* Export the memory of an object. The view holds a reference to None so far, by Cython's convention. */
static int memory_export(PyObject *owner, const memory_t *memory, Py_buffer *view, int flags) {
  Py_CLEAR(view->obj);
  return PyBuffer_FillInfo(view, owner, memory->data ? memory->data : "", memory->nbytes, memory->readonly, flags);
}

/* The type number of an array in NumPy, and the size of its elements in bytes. */
static int array_number(PyObject *array) { return ((PyArrayObject_fields *)array)->descr->type_num; }
static Py_ssize_t array_itemsize(PyObject *array) { return ((PyArrayObject_fields *)array)->descr->elsize; }
